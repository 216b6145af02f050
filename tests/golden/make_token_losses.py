"""Writes token_losses.h: what TRL and verl compute on one small batch of responses: losses of the GRPO family
with their gradients, advantages from scores, the penalty of overlong responses, the entropy controller; and
exact gradients of KL estimators on a model of five actions.

    pip install numpy==2.4.6 torch==2.15.0 transformers==5.23.0 trl==1.16.0 tensordict==0.15.3 \
                ray==2.60.0 omegaconf==2.3.1 hydra-core==1.3.8 codetiming==1.4.0 orjson==3.13.0 pandas==3.1.1
    pip install --no-deps verl==0.9.1        # asks for older transformers and tensordict than work here
    python make_token_losses.py

As in make_core.py, every input is rounded to float32 and the references compute in float64 from those
numbers, so a difference seen by a test is the error of the tested code. TRL's loss is the real method
GRPOTrainer._compute_loss, called with a stand-in for the trainer that hands out the chosen log-probabilities;
what TRL has only in the middle of a longer method is cut out of the installed source by excerpt() and run.
"""
import inspect
import re
import textwrap
import warnings
from collections import defaultdict
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

from golden import Header, c_float, r32

warnings.filterwarnings("ignore")   # chatter of the libraries about each other's versions
from trl.rewards import get_soft_overlong_punishment                                          # noqa: E402
from trl.trainer import grpo_trainer                                                          # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer                                              # noqa: E402
from verl import DataProto                                                                    # noqa: E402
from verl.trainer.config import AlgoConfig                                                    # noqa: E402
from verl.trainer.ppo import core_algos                                                       # noqa: E402
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights           # noqa: E402
from verl.workers.config import ActorConfig                                                   # noqa: E402
from verl.workers.reward_manager.dapo import DAPORewardManager                                # noqa: E402

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

LENGTH = [5, 1, 9, 3, 7, 2, 4, 6]
PROMPTS, SAMPLES, WIDTH = 2, 4, 10
TOKENS = sum(LENGTH)
INSIDE = torch.arange(WIDTH) < torch.tensor(LENGTH)[:, None]        # [sequence][position]
MASK = INSIDE.to(torch.float64)
PROMPT = np.repeat(np.arange(PROMPTS), SAMPLES)
SURE, HUGE = 1e-3, 1e9


class TokenHeader(Header):
    """As Header, but every name starts with tl_."""

    def save(self, file):
        self.lines = [re.sub(r"\bg_", "tl_", line) for line in self.lines]
        super().save(file)


def hyper(x):
    """A hyperparameter as the C code gets it: a float."""
    return float(np.float32(x))


def excerpt(function, first, stop):
    """The source from the line that starts with `first` up to the one that starts with `stop`, which is left
    out. As in make_language.py, which cannot be imported here because it needs an older TRL."""
    lines = inspect.getsource(function).split("\n")
    begin, = [i for i, line in enumerate(lines) if line.strip().startswith(first)]
    end = next(i for i in range(begin, len(lines)) if lines[i].strip().startswith(stop))
    return textwrap.dedent("\n".join(lines[begin:end]))


def run(text, **names):
    """Executes an excerpt of grpo_trainer.py with these names, and returns all names after it."""
    space = dict(vars(grpo_trainer), **names)
    exec(text, space)
    return space


def pad(packed, junk=0.37):
    """[tokens] to [sequence][position]. The padding must not matter, so it is not 0."""
    rows = torch.full((len(LENGTH), WIDTH), junk)
    rows[INSIDE] = torch.as_tensor(np.asarray(packed, np.float64))
    return rows


def pack(rows):
    """[sequence][position] to [tokens]; what is left out must be 0."""
    assert (rows[~INSIDE] == 0).all()
    return rows[INSIDE]


def near(a, b):
    return torch.allclose(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-7, atol=1e-12)


# ------------------------------------------------------------------------------------------------ the batch

def around(means, spread):
    """For each sequence, tokens whose mean is given, each within +- spread of it before they are centred."""
    rows = []
    for n, mean in zip(LENGTH, means):
        x = spread * (2 * torch.rand(n) - 1)
        rows.append(x - x.mean() + mean)
    return torch.cat(rows).numpy()


def make_batch():
    """Sequences 4 and 6 have a mean log-ratio inside the tight range of GSPO, 2 and 7 inside the wide one."""
    torch.manual_seed(26)
    b = SimpleNamespace()
    b.advantage = r32([1.25, -0.75, 0.5, -1.5, 0.875, 1.125, -0.625, -1.0])
    b.score = r32([1.0, 0.25, -0.5, 0.75, 0.125, 2.0, -1.25, 0.0625])
    b.old_logp = r32(-1.6 - 2 * torch.rand(TOKENS))
    ratio = around([0.3, np.log(0.7), 0.05, 0.3, 2e-4, -0.3, -1.5e-4, -0.1], 0.55)
    start = np.cumsum([0] + LENGTH)
    ratio[start[3]:start[4]] = np.log([0.75, 3.4, 1.1])            # for the dual clip: advantage < 0
    ratio[start[5]:start[6]] = np.log([0.6, 0.9])
    ratio[start[2] + np.arange(5)] = np.log([1.24, 1.26, 0.85, 1.1, 0.6])       # between 0.2 and 0.28, too
    ratio[start[2] + 8] = 9 * 0.05 - ratio[start[2]:start[2] + 8].sum()
    b.logp = r32(b.old_logp + ratio)
    products = np.log([2.5, 0.4, 1.3, 0.7, 3.5, 1.1, 0.35, 0.9])
    sampling = around(products / LENGTH, 0.7)
    sampling[start[2] + np.arange(2)] = np.log([3.9, 0.32])
    sampling[start[2] + 8] = products[2] - sampling[start[2]:start[2] + 8].sum()
    b.sampling_logp = r32(b.old_logp - sampling)
    b.ref_logp = r32(b.logp + 0.4 * torch.randn(TOKENS).numpy())
    b.entropy = r32(0.1 + 1.9 * torch.rand(TOKENS))
    b.token_advantage = r32(torch.randn(TOKENS))
    b.token_advantage[start[3] + 1] = -0.75
    check_batch(b)
    return b


def check_batch(b):
    """Nothing on a knife's edge, and something on each side of every edge."""
    ratio = np.exp(b.logp - b.old_logp)
    assert b.logp.max() < 0 and b.ref_logp.max() < 0 and b.sampling_logp.max() < 0
    assert min(np.abs(ratio - edge).min() for edge in (0.8, 1.2, 1.28, 3.0)) > SURE
    others = np.delete(ratio, ratio.argmax())
    assert 0.45 < others.min() < 0.55 and 1.8 < others.max() < 2.1 and ratio.max() > 3
    for adv in np.repeat(b.advantage, LENGTH), b.token_advantage:
        assert adv[ratio.argmax()] < 0
        for sign in adv > 0, adv < 0:
            for low, high in (0, 0.8), (0.8, 1.2), (1.2, 1.28), (1.28, 9):
                assert ((low < ratio) & (ratio < high) & sign).any(), (low, high)
    mean = np.array([x.mean() for x in np.split(b.logp - b.old_logp, np.cumsum(LENGTH)[:-1])])
    for edge in 0.8, 1.2, 1 - 3e-4, 1 + 4e-4:
        assert np.abs(np.exp(mean) - edge).min() > 5e-5
    assert ((np.exp(mean) > 1 - 3e-4) & (np.exp(mean) < 1 + 4e-4)).sum() == 2
    other = b.old_logp - b.sampling_logp
    product = np.array([x.sum() for x in np.split(other, np.cumsum(LENGTH)[:-1])])
    for x in np.exp(other), np.exp(product):
        assert np.abs(x - 2).min() > SURE and np.abs(x - 0.5).min() > SURE
        assert (x > 2).any() and (x < 0.5).any() and ((x > 0.5) & (x < 2)).sum() > 2
    assert 0.28 < np.exp(other).min() < 0.35 and 3.8 < np.exp(other).max() < 4.1


def batch(h, b):
    h.case("The batch: %d prompts with %d responses each, prompt after prompt. Arrays [tokens] hold the "
           "sampled tokens of all responses, one after another without padding; tl_width is the constant "
           "maximum length. _old_logp: before the epochs; _sampling_logp: by the sampler's own policy; "
           "_advantage and _score: of each response; _token_advantage: another advantage, of each token"
           % (PROMPTS, SAMPLES),
           prompts=PROMPTS, samples=SAMPLES, sequences=len(LENGTH), tokens=TOKENS, width=WIDTH)
    h.array("int", "length", LENGTH)
    for name in ("logp", "old_logp", "ref_logp", "sampling_logp", "entropy", "token_advantage", "advantage",
                 "score"):
        h.array("float", name, getattr(b, name))


# --------------------------------------------------------------------------------------------- TRL's losses

def trainer(logp, entropy, loss_type="grpo", low=0.2, high=0.2, level="token", beta=0.0, corrected=False,
            coef=0.0, adaptive=False, **args):
    """What _compute_loss reads of a GRPOTrainer: one process, one micro-batch per step."""
    args = SimpleNamespace(use_bias_correction_kl=corrected, delta=None, steps_per_generation=1, **args)
    accelerator = SimpleNamespace(num_processes=1, sync_gradients=True, gather=lambda x: x,
                                  reduce=lambda x, reduction: x)
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, entropy, None), args=args,
        accelerator=accelerator, model=SimpleNamespace(training=True), loss_type=loss_type,
        epsilon_low=hyper(low), epsilon_high=hyper(high), importance_sampling_level=level, beta=hyper(beta),
        current_gradient_accumulation_steps=1, max_completion_length=WIDTH, aux_loss_enabled=False,
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, use_vllm=False,
        vllm_importance_sampling_correction=True, entropy_coef=hyper(coef), use_adaptive_entropy=adaptive,
        _entropy_bonus_enabled=adaptive or coef != 0, _last_world_entropy=float("inf"),
        _entropy_window_stats=None, _metrics=defaultdict(lambda: defaultdict(list)))


def trl_inputs(b):
    prompts = torch.ones(len(LENGTH), 1, dtype=torch.int64)
    return dict(prompt_ids=prompts, prompt_mask=prompts, completion_ids=torch.ones_like(MASK).long(),
                completion_mask=MASK.long(), advantages=torch.tensor(b.advantage),
                old_per_token_logps=pad(b.old_logp), ref_per_token_logps=pad(b.ref_logp, 0.11),
                num_items_in_batch=torch.tensor(TOKENS))


def trl_weight(b, mode, clip_min):
    """TRL's own lines for the ratio of the policy before the epochs to the sampler's."""
    text = excerpt(GRPOTrainer._generate_and_score_completions, "mask = completion_mask if tool_mask is None",
                   "# Compute the per-token log probabilities for the reference model")
    self = SimpleNamespace(use_vllm=True, vllm_importance_sampling_correction=True,
                           vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_max=2.0,
                           vllm_importance_sampling_clip_min=clip_min)
    names = run(text, self=self, completion_mask=MASK.long(), tool_mask=None,
                old_per_token_logps=pad(b.old_logp), sampling_per_token_logps=pad(b.sampling_logp, 0.23))
    return names["vllm_importance_sampling_ratio"]


def trl_loss(b, weight=None, **settings):
    logp, entropy = pad(b.logp, 0.05).requires_grad_(), pad(b.entropy).requires_grad_()
    self, inputs = trainer(logp, entropy, **settings), trl_inputs(b)
    if weight:
        self.use_vllm, inputs["importance_sampling_ratio"] = True, trl_weight(b, *weight)
    loss = GRPOTrainer._compute_loss(self, self.model, inputs)
    by_logp, by_entropy = torch.autograd.grad(loss, [logp, entropy], allow_unused=True)
    return loss.item(), pack(by_logp), None if by_entropy is None else pack(by_entropy)


def trl_cases(b):
    for kind in "grpo", "bnpo", "dapo", "dr_grpo":
        yield "trl_" + kind, 0, trl_loss(b, loss_type=kind)
        yield "trl_" + kind + "_higher", 0, trl_loss(b, loss_type=kind, high=0.28)
    yield "trl_gspo", 0, trl_loss(b, level="sequence")
    yield "trl_gspo_tight", 0, trl_loss(b, level="sequence", low=3e-4, high=4e-4)
    yield "trl_cispo", 0, trl_loss(b, loss_type="cispo", high=1.28)
    for kind in "grpo", "dapo":
        yield "trl_" + kind + "_kl", 0, trl_loss(b, loss_type=kind, beta=0.1)
        yield "trl_" + kind + "_kl_corrected", 0, trl_loss(b, loss_type=kind, beta=0.1, corrected=True)
    for mode in "token_truncate", "token_mask", "sequence_truncate", "sequence_mask":
        yield "trl_grpo_" + mode, 0, trl_loss(b, weight=(mode, None))
        if mode.endswith("mask"):
            yield "trl_grpo_" + mode + "_min", 0, trl_loss(b, weight=(mode, 0.5))
    yield "trl_grpo_token_truncate_kl", 0, trl_loss(b, weight=("token_truncate", None), beta=0.1)
    for kind in "grpo", "dapo", "dr_grpo":
        yield "trl_" + kind + "_entropy", 0, trl_loss(b, loss_type=kind, coef=0.01)


# -------------------------------------------------------------------------------------------- verl's losses

def verl_loss(b, kind="vanilla", agg="token-mean", low=0.2, high=0.2, dual=HUGE, tokenwise=0, kl=None,
              weight=None):
    """A policy loss of verl; kl names an estimator whose aggregate is added, as verl's ppo_loss does."""
    config = ActorConfig(strategy="fsdp", rollout_n=SAMPLES, use_dynamic_bsz=True, clip_ratio=hyper(low),
                         clip_ratio_low=hyper(low), clip_ratio_high=hyper(high), clip_ratio_c=hyper(dual))
    logp = pad(b.logp, 0.05).requires_grad_()
    adv = pad(b.token_advantage) if tokenwise else torch.tensor(b.advantage)[:, None] * MASK
    if weight:
        log_ratio = pad(b.old_logp) - pad(b.sampling_logp, 0.23)
        weight, _ = compute_rollout_correction_weights(log_ratio, MASK, *weight)
    loss, _ = core_algos.get_policy_loss_fn(kind)(
        old_log_prob=pad(b.old_logp), log_prob=logp, advantages=adv, response_mask=MASK, loss_agg_mode=agg,
        config=config, rollout_is_weights=weight)
    if kl:
        each = core_algos.kl_penalty(logp, pad(b.ref_logp, 0.11), kl)
        loss = loss + hyper(0.1) * core_algos.agg_loss(each, MASK, agg, **config.global_batch_info)
    return loss.item(), pack(torch.autograd.grad(loss, logp)[0]), None


def verl_cases(b):
    by_sequence = "seq-mean-token-mean"
    for tokenwise, end in (0, ""), (1, "_ta"):
        for agg in "token-mean", by_sequence, "seq-mean-token-sum", "seq-mean-token-sum-norm":
            yield "verl_" + agg.replace("-", "_") + end, tokenwise, verl_loss(b, agg=agg, tokenwise=tokenwise)
        yield "verl_dual" + end, tokenwise, verl_loss(b, dual=3, tokenwise=tokenwise)
        yield "verl_gspo" + end, tokenwise, verl_loss(b, "gspo", by_sequence, tokenwise=tokenwise)
        yield "verl_cispo" + end, tokenwise, verl_loss(b, "cispo", high=0.28, tokenwise=tokenwise)
    yield "verl_gspo_tight", 0, verl_loss(b, "gspo", by_sequence, low=3e-4, high=4e-4)
    for kl in "k1", "k2", "k3":
        yield "verl_%s_token_mean" % kl, 0, verl_loss(b, kl=kl)
        yield "verl_%s_seq_mean_token_mean" % kl, 0, verl_loss(b, kl=kl, agg=by_sequence)
    yield "verl_token_truncate", 0, verl_loss(b, weight=("token", 2.0))
    yield "verl_sequence_truncate", 0, verl_loss(b, weight=("sequence", 2.0))
    yield "verl_token_mask_min", 0, verl_loss(b, weight=("token", "0.5_2.0"))


SETTINGS = [
    "Cases. The sum of token losses is divided as follows, with N sequences. grpo, seq_mean_token_mean: mean "
    "of the sequences' token means. bnpo, dapo, token_mean: all tokens (TRL's dapo: those of all processes, "
    "the same here). dr_grpo, seq_mean_token_sum_norm: N * tl_width (verl 0.8.0.dev: tl_width alone). "
    "seq_mean_token_sum: N. Clipping is 0.2/0.2 unless _higher: 0.2/0.28. TRL has no dual clip here, verl's "
    "is off (clip_ratio_c 1e9) but for verl_dual: 3, token_mean. Hyperparameters are rounded to float32",
    "gspo: one ratio per sequence, exp of the mean log-ratio, mean over sequences; verl takes the ratio "
    "sg(s) pi_t / sg(pi_t) at each token, then seq_mean_token_mean: the same unless advantages differ by "
    "token. _tight: clipping 3e-4/4e-4. cispo: -sg(clamped ratio) A logp over all tokens; TRL clamps at the "
    "top only, to epsilon_high itself (1.28), verl to [1 - 0.2, 1 + 0.28]",
    "_kl: plus beta = 0.1 times k3 = exp(ref - logp) - (ref - logp) - 1, aggregated as the loss; _corrected: "
    "k3 times the ratio pi / pi_old, with gradient through both. verl_k1, _k2, _k3: plus 0.1 times logp - "
    "ref, half its square, or k3 (which verl clamps to 10, not reached here), aggregated as the loss",
    "_token_truncate and the like: each token's loss times the weight w = exp(old_logp - sampling_logp), a "
    "constant, of the token or the product over the sequence. _truncate: min(w, 2); _mask: 0 where w > 2; "
    "_min: or where w < 0.5. Never renormalized: the divisors above do not change. verl's aggregation is "
    "token_mean. trl_..._kl: the KL term is added afterwards and is not weighted",
    "_entropy: less 0.01 times the mean entropy of all tokens, whatever the loss's own divisor. grad_logp "
    "and grad_entropy [tokens] are those of the loss, the entropy an input of its own; tl_zeros where it "
    "takes no part. token_advantage (names end in _ta): 1 where tl_token_advantage was used instead of "
    "tl_advantage"]


ALIKE = [   # the same gradient by both, or by several names for the same thing on one device
    {"trl_grpo", "trl_grpo_entropy", "verl_seq_mean_token_mean"}, {"trl_bnpo_higher", "trl_dapo_higher"},
    {"trl_bnpo", "trl_dapo", "trl_dapo_entropy", "verl_token_mean"}, {"trl_gspo", "verl_gspo"},
    {"trl_dr_grpo", "trl_dr_grpo_entropy", "verl_seq_mean_token_sum_norm"},
    {"trl_gspo_tight", "verl_gspo_tight"},
    {"trl_grpo_kl", "verl_k3_seq_mean_token_mean"}, {"trl_dapo_kl", "verl_k3_token_mean"}]


def losses(h, b):
    cases = list(trl_cases(b)) + list(verl_cases(b))
    for i, (one, _, (loss, grad, _)) in enumerate(cases):
        for other, _, (other_loss, other_grad, _) in cases[:i]:
            alike = any({one, other} <= names for names in ALIKE)
            assert near(grad, other_grad) == alike, (one, other)
            assert "entropy" in one + other or near(loss, other_loss) == alike, (one, other)

    h.lines.append("")
    for text in SETTINGS:
        h.comment(text)
    h.array("float", "zeros", np.zeros(TOKENS))
    rows = []
    for name, tokenwise, (loss, by_logp, by_entropy) in cases:
        row = ['{"%s", %s' % (name, c_float(loss)), "tl_%s_grad" % name, "tl_zeros", "%d}," % tokenwise]
        h.array("float", name + "_grad", by_logp)
        if by_entropy is not None:
            h.array("float", name + "_grad_entropy", by_entropy)
            row[2] = "tl_%s_grad_entropy" % name
        rows += textwrap.wrap(", ".join(row), 110, initial_indent="    ", subsequent_indent="     ")
    h.lines.append("\n".join(
        ["typedef struct tl_case {", "    const char  *name;", "    float        loss;",
         "    const float *grad_logp;", "    const float *grad_entropy;", "    int          token_advantage;",
         "} tl_case;", "enum { tl_cases_n = %d };" % len(cases),
         "static const tl_case tl_cases[] = { /* [%d] */" % len(cases)] + rows + ["};"]))
    h.names.append("tl_cases[%d]: " % len(cases) + " ".join(name for name, _, _ in cases))


# ---------------------------------------------------------------------------------------------- advantages

def at_last(score):
    rows = torch.zeros_like(MASK)
    rows[torch.arange(len(LENGTH)), torch.tensor(LENGTH) - 1] = torch.tensor(score)
    return rows


def per_sequence(advantage):
    """What is the same at all tokens of a sequence, once."""
    first = advantage[:, :1]
    assert near(advantage, first * MASK)
    return first[:, 0]


def scores(h, b):
    def verl(name, **extra):
        function = core_algos.get_adv_estimator_fn(name)
        return per_sequence(function(at_last(b.score), MASK, index=PROMPT, **extra)[0])

    def trl(scale):
        text = excerpt(GRPOTrainer._generate_and_score_completions, "mean_grouped_rewards = torch.nanmean(",
                       'elif self.multi_objective_aggregation == "normalize_then_sum"')
        return run(text, self=SimpleNamespace(scale_rewards=scale), rewards=torch.tensor(b.score),
                   num_generations=SAMPLES)["advantages"]

    mean = verl("grpo", norm_adv_by_std_in_grpo=False)
    assert near(mean, trl("none"))
    h.case("Advantages from tl_score [sequences]; std is unbiased throughout. _grpo_verl: (score - mean) / "
           "(std + 1e-6) over the prompt's responses; _grpo_trl: the same with 1e-4 (scale_rewards group); "
           "_grpo_batch: TRL's scale_rewards batch, the prompt's mean, but the std of all scores, + 1e-4. "
           "_mean: not divided (TRL's none and verl's norm_adv_by_std_in_grpo=False agree). _rloo: by verl, "
           "score less the mean of the prompt's others. _rfpp_baseline: verl's REINFORCE++ with baseline: "
           "_mean at each token, then whitened over all tokens, so long responses weigh more: (x - mean) / "
           "sqrt(var + 1e-8), var unbiased")
    h.floats("adv", grpo_verl=verl("grpo"), grpo_trl=trl("group"), grpo_batch=trl("batch"), mean=mean,
             rloo=verl("rloo"), rfpp_baseline=verl("reinforce_plus_plus_baseline"))

    coef = hyper(0.05)
    reward = core_algos.compute_rewards(at_last(b.score), pad(b.old_logp), pad(b.ref_logp, 0.11), coef) * MASK
    h.case("rfpp: verl's REINFORCE++. _reward [tokens]: -_kl_coef (old_logp - ref_logp), and the score at "
           "the last token of each response. _return: its sum to come, discounted; _adv: the returns "
           "whitened over all tokens, as above. _1: gamma 1, _09: gamma 0.9")
    h.value("float", "rfpp_kl_coef", coef)
    h.floats("rfpp", reward=pack(reward))
    for end, gamma in ("_1", 1.0), ("_09", hyper(0.9)):
        advantage, total = core_algos.compute_reinforce_plus_plus_outcome_advantage(
            reward, MASK, config=AlgoConfig(gamma=gamma))
        h.floats("rfpp", **{"return" + end: pack(total), "adv" + end: pack(advantage)})


def gae(h, b):
    torch.manual_seed(21)
    rows = ["111001101", "1000111111", "110111"]
    mask = torch.tensor([[float(c) for c in row.ljust(WIDTH, "0")] for row in rows])
    inside = torch.arange(WIDTH) < torch.tensor([len(row) for row in rows])[:, None]
    value = torch.tensor(r32(0.8 * torch.randn(mask.shape)))
    reward = torch.tensor(r32(0.1 * torch.randn(mask.shape))) * mask
    for i, row in enumerate(rows):
        reward[i, len(row) - 1] += [1.0, -0.5, 0.75][i]
    reward = torch.tensor(r32(reward))
    lam = hyper(0.95)
    args = reward, value, mask, 1.0, lam
    whitened, _ = core_algos.compute_gae_advantage_return(*args)
    with mock.patch.object(core_algos.verl_F, "masked_whiten", lambda values, mask: values):
        advantage, total = core_algos.compute_gae_advantage_return(*args)
    h.case("gae: verl's GAE, gamma 1, on three responses with tokens that a tool wrote in their middle. "
           "Arrays [gae_tokens] hold all tokens, one response after another; _mask is 0 at those of a tool, "
           "whose values are junk and whose rewards are 0: they are skipped, the next sampled token follows "
           "directly. The value at t is that before token t; nothing follows the last. _white: advantages "
           "whitened over _mask. Results are 0 at a tool's tokens",
           gae_sequences=len(rows), gae_tokens=int(inside.sum()))
    h.value("float", "gae_lambda", lam)
    h.array("int", "gae_length", [len(row) for row in rows])
    h.array("unsigned char", "gae_mask", mask[inside])
    h.floats("gae", reward=reward[inside], value=value[inside])
    h.floats("gae", adv=(advantage * mask)[inside], white=(whitened * mask)[inside],
             **{"return": (total * mask)[inside]})


# --------------------------------------------------------------------------------- lengths and the entropy

def overlong(h, b):
    lengths, room, buffer = np.arange(1, 13), 10, 4

    def verl(factor):
        """Through DAPORewardManager with a score of 0; a token is the answer, as text it does not matter."""
        n = len(lengths)
        attention = np.arange(lengths.max() + 1) <= lengths[:, None]
        data = DataProto.from_dict(
            tensors=dict(prompts=torch.ones(n, 1).long(), responses=torch.ones(n, lengths.max()).long(),
                         attention_mask=torch.tensor(attention).long()),
            non_tensors=dict(reward_model=np.array([{"ground_truth": ""}] * n, dtype=object),
                             data_source=np.array([""] * n, dtype=object)))
        manager = DAPORewardManager(
            SimpleNamespace(decode=lambda *_, **__: "", eos_token="<eos>"), 0, lambda **_: 0.0,
            max_resp_len=room, overlong_buffer_cfg=SimpleNamespace(enable=True, len=buffer, log=False,
                                                                   penalty_factor=factor))
        return manager(data).sum(-1)

    trl = get_soft_overlong_punishment(room, buffer)([[0] * n for n in lengths])
    assert near(torch.tensor(trl)[:room], verl(1.0)[:room].double())
    h.case("overlong: DAPO's soft penalty of responses of 1, 2, ... tokens, to be added to the score. _1 and "
           "_05 by verl, factor 1 and 0.5. It does not stop at -factor for those above _max, which its "
           "sampler never makes; TRL and the paper do: _trl, factor 1",
           overlong_n=len(lengths), overlong_max=room,
           overlong_buffer=buffer)
    h.floats("overlong", **{"1": verl(1.0), "05": verl(0.5), "trl": trl})


def controller(h, b):
    worlds = r32([0.3, 0.4, 0.45, 0.5, 0.2, 0.6, 0.7, 0.4, 0.8, 0.9, 0.55, 0.65])
    zero = torch.zeros_like(MASK)
    self = trainer(zero, zero, adaptive=True, entropy_target=0.5, entropy_coef_delta=hyper(0.005),
                   entropy_coef_min=0.0, entropy_coef_max=hyper(0.02))
    applied, after = [], []
    for world in worlds:
        logp, entropy = pad(b.logp).requires_grad_(), torch.full(MASK.shape, world).requires_grad_()
        self._get_per_token_logps_and_entropies = lambda *_, **__: (logp, entropy, None)
        loss = GRPOTrainer._compute_loss(self, self.model, trl_inputs(b))
        applied.append(-torch.autograd.grad(loss, entropy)[0].sum().item())
        after.append(self.entropy_coef)
    h.case("controller: TRL's adaptive coefficient of the entropy. At each step the loss gets -_applied "
           "times the mean entropy: the coefficient as it was, or 0 where the entropy of the step before was "
           "above the target (at the first step, too). Then _after: up by _delta if this step's entropy <= "
           "_target, else down, within [0, _max]; it starts at 0. The fourth entropy equals the target",
           controller_n=len(worlds))
    for name, x in ("target", 0.5), ("delta", 0.005), ("max", 0.02):
        h.value("float", "controller_" + name, hyper(x))
    h.floats("controller", entropy=worlds, applied=applied, after=after)


# --------------------------------------------------------------------------------------- gradients of KL

def surrogates(logp, ref, old):
    ratio = torch.exp(logp - old)
    k1, k2, k3 = (core_algos.kl_penalty(logp, ref, name) for name in ("k1", "k2", "k3"))
    return {"k1": k1, "k2": k2, "k3": k3, "r*k1": ratio * k1, "r*k3": ratio * k3,
            "sg(r)*k2": ratio.detach() * k2, "r*k2": ratio * k2}


def kl_gradients(h, b):
    torch.manual_seed(23)
    logits = [torch.tensor(r32(0.8 * torch.randn(5))) for _ in range(3)]
    theta = logits[0].clone().requires_grad_()
    logp, ref, off = theta.log_softmax(0), logits[1].log_softmax(0), logits[2].log_softmax(0)

    def grad(x):
        return torch.autograd.grad(x, theta, retain_graph=True)[0]

    kl, other = (logp.exp() * (logp - ref)).sum(), (ref.exp() * (ref - logp)).sum()
    reverse, forward = grad(kl), grad(other)
    rows = {}
    for place, old in ("on", logp.detach()), ("off", off):
        made = surrogates(logp, ref, old)
        assert made["k3"].max() < 10                    # where verl clamps it, which stops its gradient
        rows[place] = {name: grad((old.exp() * x).sum()) for name, x in made.items()}
    right = {"on": {"k2", "r*k1", "r*k3", "sg(r)*k2"}, "off": {"r*k1", "r*k3", "sg(r)*k2"}}
    for place, by in rows.items():
        for name, g in by.items():
            assert torch.allclose(g, reverse, rtol=0, atol=1e-13) == (name in right[place]), (place, name)
            assert name in right[place] or (g - reverse).abs().max() > 0.01
            is_forward = torch.allclose(g, forward, rtol=0, atol=1e-13)
            assert is_forward == ((place, name) == ("on", "k3")), (place, name)
    assert rows["on"]["k1"].abs().max() < 1e-15
    names = list(rows["on"])
    h.case("kl: five actions, pi = softmax(_theta), ref and old likewise; in double. _reverse: the gradient "
           "of KL(pi || ref) by theta, _forward: of KL(ref || pi). Row i of _on and _off "
           "[kl_rows][kl_actions] is the gradient of the expectation of surrogate _name[i] over actions "
           "drawn from old, which is held constant, by enumeration: ours, with torch's autograd and verl's "
           "kl_penalty. r = pi / old, sg stops the gradient. _on: old = pi; _off: old = softmax(_old). "
           "_right_on, _right_off: 1 where the row is _reverse. On policy k1 gives 0 and k3 _forward",
           kl_actions=5, kl_rows=len(names))
    h.lines.append("static const char *const g_kl_name[] = { /* [%d] */\n    " % len(names)
                   + ", ".join('"%s"' % name for name in names) + "\n};")
    for name, x in ("theta", logits[0]), ("ref", logits[1]), ("old", logits[2]), ("reverse", reverse), \
            ("forward", forward):
        h.array("double", "kl_" + name, x)
    for place, by in rows.items():
        h.array("double", "kl_" + place, torch.stack(list(by.values())))
        h.array("unsigned char", "kl_right_" + place, [name in right[place] for name in names])


CASES = [batch, losses, scores, gae, overlong, controller, kl_gradients]

if __name__ == "__main__":
    header = TokenHeader("make_token_losses.py",
                         "Arrays are flat, row-major; the comment after the brace gives the shape.",
                         ["numpy", "torch", "transformers", "trl", "verl"])
    data = make_batch()
    for case in CASES:
        case(header, data)
    header.save("token_losses.h")
