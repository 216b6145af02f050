"""Writes language.h: inputs and expected outputs of what token models add: a GPT-2 and its layers, PPO on
tokens, preference losses, leave-one-out and group advantages, filters of sampling.

    pip install numpy==2.4.6 torch==2.15.0 transformers==4.46.3 trl==0.11.4
    python make_language.py

As in make_core.py, every input is rounded to float32 and the references compute in float64 from those
numbers, so a difference seen by a test is the error of the tested code; greedy generation alone runs in
float32. Where TRL has a formula only in the middle of a trainer's train(), excerpt() cuts those lines out of
the installed source and runs them, so that it is the library that computes.
"""
import inspect
import textwrap
import warnings
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F

from golden import Header, r32

warnings.filterwarnings("ignore")   # chatter of the libraries about each other's versions
from transformers import GPT2Config, GPT2LMHeadModel                                          # noqa: E402
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper          # noqa: E402
from trl import DPOTrainer, RewardTrainer                                                     # noqa: E402
from trl.core import masked_mean                                                              # noqa: E402
from trl.trainer import ppov2_trainer, rloo_trainer                                           # noqa: E402
from trl.trainer.utils import first_true_indices, truncate_response                           # noqa: E402

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def hyper(x):
    """A hyperparameter as the C code gets it: a float."""
    return float(np.float32(x))


def leaf(x):
    return torch.tensor(x, requires_grad=True)


def grads(loss, *leaves):
    return torch.autograd.grad(loss, leaves, retain_graph=True)


def excerpt(function, first, stop, *changes):
    """The source from the line that starts with `first` up to the one that starts with `stop`, which is left
    out; each change is (old, new) and must hit once."""
    lines = inspect.getsource(function).split("\n")
    begin, = [i for i, line in enumerate(lines) if line.strip().startswith(first)]
    end = next(i for i in range(begin, len(lines)) if lines[i].strip().startswith(stop))
    text = textwrap.dedent("\n".join(lines[begin:end]))
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def run(text, module, **names):
    """Executes an excerpt with its module's imports and these names, and returns all names after it."""
    space = dict(vars(module), **names)
    exec(text, space)
    return space


# --------------------------------------------------------------------------------------------------- GPT-2

FORMULA = """\
/* The weights of the GPT-2 are not stored. Element `index` (flat, row-major) of tensor number `tensor` is

       static float gpt_weight(uint32_t tensor, uint32_t index, int is_scale) {
           uint32_t h = tensor * 0x9e3779b9u + index;
           h = (h ^ h >> 16) * 0x85ebca6bu;
           h = (h ^ h >> 13) * 0xc2b2ae35u;
           h ^= h >> 16;
           return is_scale ? (float)((int32_t)(h >> 14) + 917504) / 1048576
                           : (float)((int32_t)(h >> 12) - 524288) / 1048576;
       }

   where is_scale is 1 for the weights of layer norms, which lie in 1 +- 1/8; all others lie in +- 1/2. Each
   is a multiple of 2^-20, so nothing is rounded, whatever the compiler's flags. Shapes are those of Hugging
   Face: the weight of a Conv1D (c_attn, c_proj, c_fc) is [in][out], embeddings are [token][width] and
   [position][width], score.weight is [1][width], vectors are [1][n]. transformer.wte.weight makes the logits,
   too. The last two tensors are the scalar head, which is not part of the language model. */"""


def formula(tensor, count, is_scale):
    word = 0xFFFFFFFF
    h = (tensor * 0x9E3779B9 + np.arange(count, dtype=np.uint64)) & word
    h = (h ^ h >> 16) * 0x85EBCA6B & word
    h = (h ^ h >> 13) * 0xC2B2AE35 & word
    h = (h ^ h >> 16).astype(np.int64)
    m = (h >> 14) + 917504 if is_scale else (h >> 12) - 524288
    return m.astype(np.float32) / np.float32(1048576)


def is_scale(name):
    return name.endswith("weight") and ".ln_" in name


def gpt2():
    """The model and its scalar head in float32, and a list of (name, parameter) of both."""
    torch.set_default_dtype(torch.float32)
    config = GPT2Config(vocab_size=19, n_positions=12, n_embd=12, n_layer=2, n_head=3,
                        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        layer_norm_epsilon=1e-5, bos_token_id=None, eos_token_id=None)
    config._attn_implementation = "eager"
    model, score = GPT2LMHeadModel(config).eval(), torch.nn.Linear(12, 1)
    torch.set_default_dtype(torch.float64)
    named = list(model.named_parameters()) + [("score." + n, p) for n, p in score.named_parameters()]
    for number, (name, p) in enumerate(named):
        p.data = torch.tensor(formula(number, p.numel(), is_scale(name))).reshape(p.shape)
    assert model.lm_head.weight is model.transformer.wte.weight
    return model, score, named


def greedy(h, model):
    """The margin between the best two logits says how far the order of sums may move a logit."""
    prompts, new, margin = [[18, 5, 8, 10], [8, 0]], [], np.inf
    for prompt in prompts:
        out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)),
                             max_new_tokens=8, do_sample=False, use_cache=True, pad_token_id=0)[0]
        new.append(out[len(prompt):].tolist())
        best = model(out[None]).logits[0, len(prompt) - 1:-1].topk(2).values
        margin = min(margin, (best[:, 0] - best[:, 1]).min().item())
        assert len(new[-1]) == 8 and (best[:, 0] > best[:, 1] + 0.05).all()
    h.case("gpt_greedy: 8 tokens after each prompt by generate(do_sample=False, use_cache=True) in float32; "
           "prompts one after another, _margin the least distance of the best two logits",
           gpt_greedy_prompts=len(prompts), gpt_greedy_tokens=8)
    h.array("int", "gpt_greedy_length", [len(p) for p in prompts])
    h.array("int", "gpt_greedy_prompt", sum(prompts, []))
    h.array("int", "gpt_greedy_new", new)
    h.value("float", "gpt_greedy_margin", margin)


def gpt(h, rng):
    model, score, named = gpt2()
    weights = [p.detach().numpy().copy() for _, p in named]
    sizes = [w.size for w in weights]
    h.lines.append("")
    h.lines.append(FORMULA)
    h.case("gpt: transformers' GPT2LMHeadModel, activation gelu_new, no dropout. Tensors in the order of "
           "their numbers; _first and _last are elements of the weights, to check the formula",
           gpt_vocab=19, gpt_positions=12, gpt_width=12, gpt_layers=2, gpt_heads=3, gpt_tensors=len(named),
           gpt_params=sum(sizes[:-2]))
    h.value("float", "gpt_eps", model.config.layer_norm_epsilon)
    h.lines.append("static const char *const g_gpt_name[] = { /* [%d] */\n    " % len(named)
                   + ",\n    ".join('"%s"' % name for name, _ in named) + "\n};")
    h.array("int", "gpt_rows", [w.shape[0] if w.ndim == 2 else 1 for w in weights])
    h.array("int", "gpt_cols", [w.shape[-1] for w in weights])
    h.array("unsigned char", "gpt_is_scale", [is_scale(name) for name, _ in named])
    h.floats("gpt", first=[w.flat[0] for w in weights], last=[w.flat[-1] for w in weights])

    greedy(h, model)
    model, score = model.double(), score.double()
    lengths, prompts = [12, 7, 2], [3, 2, 1]
    sequences = [rng.integers(19, size=n) for n in lengths]
    sequences[0][[4, 8]] = sequences[0][5]             # a token that comes several times
    logits, hidden, scores, logps, loss, targets = [], [], [], [], 0, 0
    for ids, prompt in zip(sequences, prompts):
        ids = torch.tensor(ids)
        out = model(ids[None], output_hidden_states=True)
        logits.append(out.logits[0])
        hidden.append(out.hidden_states[-1][0])
        scores.append(score(hidden[-1])[:, 0])
        each = F.cross_entropy(logits[-1][:-1], ids[1:], reduction="none")
        logps.append(torch.cat([torch.zeros(1), -each]))
        loss = loss + each[prompt - 1:].sum()
        targets += len(ids) - prompt
        label = torch.where(torch.arange(len(ids)) < prompt, -100, ids)
        assert torch.isclose(model(ids[None], labels=label[None]).loss, each[prompt - 1:].mean())
    loss = loss / targets
    by = grads(loss, *[p for _, p in named[:-2]])
    h.case("gpt, in float64: sequences one after another, each computed alone. Row t of _logits [row][vocab] "
           "follows token t; _hidden is the final layer norm's output, _score the scalar head's. _logp of "
           "token t is read from row t-1, and 0 for a sequence's first. _loss: mean of -logp over the tokens "
           "after each sequence's prompt; _grad: of _loss by all but the last two tensors, one after another",
           gpt_sequences=3, gpt_tokens=sum(lengths), gpt_targets=targets)
    h.array("int", "gpt_length", lengths)
    h.array("int", "gpt_prompt", prompts)
    h.array("int", "gpt_token", np.concatenate(sequences))
    h.value("float", "gpt_loss", loss.item())
    h.floats("gpt", logits=torch.cat(logits), hidden=torch.cat(hidden), score=torch.cat(scores),
             logp=torch.cat(logps), grad=torch.cat([g.ravel() for g in by]))


# -------------------------------------------------------------------------------------------------- layers

def layer_norm(h, rng):
    rows, width = 5, 7
    start = rng.normal(size=(rows, width))
    start[1] = 30 + 0.5 * start[1]                              # a mean far above the spread
    start[2] = 0.25                                             # no spread at all: eps decides
    start[3] *= 2.0 ** -8                                       # a variance near eps
    x, weight, bias = (leaf(r32(a)) for a in (start, 1 + 0.3 * rng.normal(size=width),
                                              0.3 * rng.normal(size=width)))
    up = r32(rng.normal(size=(rows, width)))
    out = F.layer_norm(x, (width,), weight, bias, hyper(1e-5))
    gx, gw, gb = grads((torch.tensor(up) * out).sum(), x, weight, bias)
    h.case("lnorm: rows of layer norm, variance divided by width, eps 1e-5; gradients of sum(up out). Row 1 "
           "is far from 0, row 2 constant, row 3's variance near eps, so gradients of these two are large. "
           "By torch.nn.functional.layer_norm", lnorm_rows=rows, lnorm_width=width)
    h.floats("lnorm", x=x, weight=weight, bias=bias, up=up, out=out, grad_x=gx, grad_weight=gw, grad_bias=gb)


def gelu(h, rng):
    x = np.concatenate([np.arange(-24, 25) / 4, [-10, 10, -8, 8, -1e-3, 1e-3]])
    up, x = r32(rng.normal(size=len(x))), leaf(r32(x))
    out = F.gelu(x, approximate="tanh")
    h.case("gelu: the form with tanh; _grad of sum(up out). By torch.nn.functional.gelu", gelu_n=len(x))
    h.floats("gelu", x=x, up=up, out=out, grad=grads((torch.tensor(up) * out).sum(), x)[0])


def attention(h, rng):
    steps, heads, size = 5, 2, 3
    qkv = leaf(r32(rng.normal(size=(steps, 3 * heads * size))))
    up = r32(rng.normal(size=(steps, heads * size)))
    q, k, v = (x.reshape(steps, heads, size).transpose(0, 1) for x in qkv.split(heads * size, dim=1))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(steps, -1)
    h.case("attn: causal attention within one sequence, scores divided by sqrt(size); qkv [steps][q of all "
           "heads, k of all, v of all]; _grad of sum(up out). By torch's scaled_dot_product_attention",
           attn_steps=steps, attn_heads=heads, attn_size=size)
    h.floats("attn", qkv=qkv, up=up, out=out, grad=grads((torch.tensor(up) * out).sum(), qkv)[0])


def embedding(h, rng):
    table, index = leaf(r32(rng.normal(size=(6, 4)))), np.array([2, 0, 2, 5, 2, 3, 0, 5, 2])
    up = r32(rng.normal(size=(len(index), 4)))
    out = F.embedding(torch.tensor(index), table)
    h.case("embed: rows of a table by indices that repeat (1 and 4 never come); _grad of sum(up out) by the "
           "table. By torch.nn.functional.embedding", embed_n=len(index), embed_rows=6, embed_width=4)
    h.array("int", "embed_index", index)
    h.floats("embed", table=table, up=up, out=out, grad=grads((torch.tensor(up) * out).sum(), table)[0])


# ------------------------------------------------------------------------------------------- PPO on tokens

PAD, EOS = 0, 1
# The score at the last real token, and no value after it.
LAST = "sequence_lengths_p1 = sequence_lengths + 1", "sequence_lengths_p1 = sequence_lengths"


def trl_ppo(h, rng):
    n, width = 4, 9
    train = ppov2_trainer.PPOv2Trainer.train
    response = rng.integers(2, 19, size=(n, width))
    response[1, 7] = response[2, 3] = response[3, 0] = EOS       # row 0 has none, the others go on after it
    logp = r32(rng.uniform(-3, -0.1, (n, width)))
    ref = r32(logp + 0.4 * rng.normal(size=(n, width)))
    value, score = r32(0.7 * rng.normal(size=(n, width))), r32([1.5, 0.75, -1.25, 0.5])
    new_logp = r32(logp + 0.2 * rng.normal(size=(n, width)))
    new_value = r32(value + 0.4 * rng.normal(size=(n, width)))
    ratio = np.exp(new_logp - logp)
    assert min(np.abs(ratio - edge).min() for edge in (0.8, 1.2)) > 1e-4       # none on a knife's edge
    assert np.abs(np.abs(new_value - value) - 0.2).min() > 1e-4

    args = SimpleNamespace(missing_eos_penalty=1.0, kl_coef=hyper(0.05), gamma=1.0, lam=hyper(0.95),
                           cliprange=hyper(0.2), cliprange_value=hyper(0.2))
    truncated = truncate_response(EOS, PAD, torch.tensor(response))
    length = first_true_indices(truncated == PAD)
    h.case("trl: four responses by TRL's PPOv2Trainer.train, all [n][width]. A mask is 1 at a real token, "
           "EOS included; what inputs hold after that is junk. The value at t is that before token t. _kl = "
           "logp - ref_logp; _reward = -kl_coef kl, and the score less eos_penalty where EOS (1) is missing, "
           "which TRL adds one step AFTER the last real token (_mask_p1 has it), unless the response fills "
           "its row: then at the last token, and both masks agree. _last: the score always at the last real "
           "token, _mask used throughout. _white: rewards whitened over _mask_p1 (_mask in _last) without "
           "shifting their mean. _gae: advantages before, _advantage after whitening over _mask; _return = "
           "_gae + value. All are 0 outside their mask. Whitening divides by sqrt(unbiased variance + 1e-8). "
           "_kl_of_response and _non_score_reward sum over a response", trl_n=n, trl_width=width, trl_eos=EOS)
    for name in "kl_coef", "gamma", "lam", "cliprange", "cliprange_value":
        h.value("float", "trl_" + name, getattr(args, name))
    h.value("float", "trl_eos_penalty", args.missing_eos_penalty)
    h.array("int", "trl_response", response)
    h.array("int", "trl_length", length)
    h.array("unsigned char", "trl_mask", np.arange(width) < length.numpy()[:, None])
    h.array("unsigned char", "trl_mask_p1", np.arange(width) <= length.numpy()[:, None])
    h.floats("trl", logp=logp, ref_logp=ref, value=value, score=score)

    plain = {}
    trainer = SimpleNamespace(args=args, tokenizer=SimpleNamespace(eos_token_id=EOS))
    inputs = dict(responses=response, logprobs=logp, ref_logprobs=ref, scores=score, values=value)
    for place, changes in ("", []), ("_last", [LAST]):
        text = excerpt(train, "contain_eos_token = ", "torch.cuda.empty_cache()", *changes)
        for white in False, True:
            args.whiten_rewards = white
            s = run(text, ppov2_trainer, self=trainer, args=args, postprocessed_responses=truncated,
                    sequence_lengths=length - 1, **{key: torch.tensor(x) for key, x in inputs.items()})
            if not place and not white:
                h.floats("trl", score_after_penalty=s["scores"], kl=s["kl"],
                         kl_of_response=s["kl"].sum(1), non_score_reward=s["non_score_reward"].sum(1))
            if not white:
                plain[place] = s
            end = place + ("_white" if white else "")
            h.floats("trl", **{"reward" + end: s["rewards"], "gae" + end: s["returns"] - s["values"],
                               "return" + end: s["returns"], "advantage" + end: s["advantages"]})

    h.case("trl_new: the update with new log-probabilities and values of those responses, rewards not "
           "whitened. pg over _mask, vf = 0.5 mean of the larger square over _mask_p1 (_mask in _last), the "
           "value clipped around the old one; the clip fractions count where the clipped term is the larger. "
           "_ratio is 1 in the padding. TRL's approxkl and ratio_mean divide by n * width, padding included; "
           "_masked: by real tokens alone. _grad_logp of _pg_loss, _grad_value of _vf_loss")
    h.floats("trl_new", logp=new_logp, value=new_value)
    text = excerpt(train, "new_logprobs = torch.masked_fill(", "loss = pg_loss +")
    statistics = excerpt(train, "pg_clipfrac = masked_mean(", "prob_dist =") \
        + "\n" + excerpt(train, "approxkl = ", "approxkl_stats")
    for place, s in plain.items():
        x, v = leaf(new_logp), leaf(new_value)
        names = dict(args=args, micro_batch_inds=torch.arange(n), context_length=1, new_logprobs=x,
                     vpred_temp=F.pad(v, (0, 1))[:, :, None], mb_advantage=s["advantages"],
                     mb_logprobs=s["logprobs"], mb_return=s["returns"], mb_values=s["values"],
                     padding_mask=s["padding_mask"], padding_mask_p1=s["padding_mask_p1"])
        u = run(text + "\n" + statistics, ppov2_trainer, **names)
        if not place:
            ratio, square, real = u["ratio"], 0.5 * u["logprobs_diff"] ** 2, ~s["padding_mask"]
            h.floats("trl_new", ratio=ratio)
            h.value("float", "trl_new_approxkl", u["approxkl"].item())
            h.value("float", "trl_new_approxkl_masked", masked_mean(square, real).item())
            h.value("float", "trl_new_ratio_mean", ratio.mean().item())
            h.value("float", "trl_new_ratio_mean_masked", masked_mean(ratio, real).item())
        for name in "pg_loss", "pg_clipfrac", "vf_loss", "vf_clipfrac":
            h.value("float", "trl_new_" + name + place, u[name].item())
        h.floats("trl_new", **{"grad_logp" + place: grads(u["pg_loss"], x)[0],
                               "grad_value" + place: grads(u["vf_loss"], v)[0]})


# --------------------------------------------------------------------------------------------- preferences

def pairs(h, rng):
    n, beta = 5, hyper(0.1)
    chosen, rejected, ref_chosen, ref_rejected = (r32(-30 + 8 * rng.normal(size=n)) for _ in range(4))
    chosen[0], rejected[0] = ref_chosen[0], ref_rejected[0]     # the first step: margin 0
    h.case("pairs: by TRL's DPOTrainer.dpo_loss. _loss of each pair and _grad_... of their mean; _0: "
           "label_smoothing 0, _1: 0.1. The rewards are beta (logp - ref_logp)", pairs_n=n)
    h.value("float", "pairs_beta", beta)
    h.floats("pairs", chosen=chosen, rejected=rejected, ref_chosen=ref_chosen, ref_rejected=ref_rejected)
    for suffix, smooth in ("_0", 0.0), ("_1", hyper(0.1)):
        trainer = SimpleNamespace(accelerator=SimpleNamespace(device="cpu"), reference_free=False, beta=beta,
                                  label_smoothing=smooth, loss_type="sigmoid", f_divergence_type="reverse_kl")
        c, r = leaf(chosen), leaf(rejected)
        ref = torch.tensor(ref_chosen), torch.tensor(ref_rejected)
        loss, *rewards = DPOTrainer.dpo_loss(trainer, c, r, *ref)
        gc, gr = grads(loss.mean(), c, r)
        if not smooth:
            h.floats("pairs", reward_chosen=rewards[0], reward_rejected=rewards[1])
        h.floats("pairs", **{"loss" + suffix: loss, "grad_chosen" + suffix: gc, "grad_rejected" + suffix: gr})


def reward_model(h, rng):
    n, center = 6, hyper(0.01)
    chosen, rejected, margin = r32(rng.normal(size=n)), r32(rng.normal(size=n)), r32(rng.uniform(0, 2, n))
    def model(input_ids, **_):
        return {"logits": input_ids[:, None]}                   # the scores are handed in as the tokens

    h.case("rmodel: by TRL's RewardTrainer.compute_loss, mean over pairs. _0: -logsigmoid(chosen - "
           "rejected); _center: plus _coefficient times the mean of (chosen + rejected)^2; _margin: "
           "-logsigmoid(chosen - rejected - margin)", rmodel_n=n)
    h.value("float", "rmodel_coefficient", center)
    h.floats("rmodel", chosen=chosen, rejected=rejected, margin=margin)
    for suffix, coefficient, extra in ("_0", None, {}), ("_center", center, {}), \
            ("_margin", None, {"margin": torch.tensor(margin)[:, None]}):
        c, r = leaf(chosen), leaf(rejected)
        trainer = SimpleNamespace(use_reward_data_collator=True,
                                  args=SimpleNamespace(center_rewards_coefficient=coefficient))
        inputs = dict(extra, input_ids_chosen=c, attention_mask_chosen=None, input_ids_rejected=r,
                      attention_mask_rejected=None)
        loss = RewardTrainer.compute_loss(trainer, model, inputs)
        gc, gr = grads(loss, c, r)
        h.value("float", "rmodel_loss" + suffix, loss.item())
        h.floats("rmodel", **{"grad_chosen" + suffix: gc, "grad_rejected" + suffix: gr})


def groups(h, rng):
    """TRL keeps RLOO's rewards as [sample][prompt] and GRPO's as [prompt][sample]; both are written as the
    latter. TRL 0.11 has no GRPO; this is its later GRPOTrainer's formula with scale_rewards."""
    prompts, k = 3, 4
    reward = r32(2 * rng.normal(size=(prompts, k)))
    reward[1] = [0, 1, 1, 0]
    reward[2] = 0.75                                            # all alike: nothing to learn
    text = excerpt(rloo_trainer.RLOOTrainer.train, "rlhf_reward = rlhf_reward.reshape", "torch.cuda")
    x = torch.tensor(reward)
    rloo = run(text, rloo_trainer, args=SimpleNamespace(rloo_k=k), rlhf_reward=x.T.flatten())
    grpo = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-4)
    h.case("groups: k rewards of each prompt, [prompts][k]. _rloo: by TRL's RLOOTrainer.train, the reward "
           "less the mean of the other k - 1. _grpo: (reward - mean) / (std + 1e-4) of the prompt's rewards, "
           "std unbiased, the formula of later TRL's GRPOTrainer", groups_prompts=prompts, groups_k=k)
    h.floats("groups", reward=reward, rloo=rloo["advantages"].reshape(k, prompts).T, grpo=grpo)


# ------------------------------------------------------------------------------------------------ sampling

def filters(h, rng):
    vocab, top_k, top_p = 8, 4, hyper(0.8)
    logits = r32(1.5 * rng.normal(size=(3, vocab)))
    logits[1, 5] = 6                                            # one token is above top_p by itself
    logits[2] = [1, 2.5, 0.25, 1.5, -3, 1.25, 1.25, 3.5]        # tokens 5 and 6 share place 4 of top_k
    steps = {"temperature": TemperatureLogitsWarper(hyper(0.7)), "top_k": TopKLogitsWarper(top_k),
             "top_p": TopPLogitsWarper(top_p)}
    x = torch.tensor(logits)

    def apply(*warpers):
        y = x
        for w in warpers:
            if isinstance(w, TopPLogitsWarper):                 # no cut on a knife's edge or between equals
                order = y.sort(dim=-1).values
                below = order.softmax(-1).cumsum(-1) - (1 - top_p)
                assert below.abs().min() > 1e-3
                assert all(a == -np.inf or a < b for row, cut in zip(order, (below <= 0).sum(-1))
                           for a, b in [(row[cut - 1] if cut else -np.inf, row[cut])])
            y = w(None, y)
        return y.softmax(-1)

    h.case("filters: probabilities after transformers' TemperatureLogitsWarper, TopKLogitsWarper and "
           "TopPLogitsWarper, each alone, and all in this order. Tokens as good as the k-th stay: row 2 "
           "keeps 5 of top_k 4. Top-p keeps the token that reaches top_p",
           filters_rows=3, filters_vocab=vocab, filters_top_k=top_k)
    h.value("float", "filters_temperature", hyper(0.7))
    h.value("float", "filters_top_p", top_p)
    h.floats("filters", logits=logits, by_nothing=apply(), by_all=apply(*steps.values()),
             **{"by_" + key: apply(w) for key, w in steps.items()})


CASES = [gpt, layer_norm, gelu, attention, embedding, trl_ppo, pairs, reward_model, groups, filters]

if __name__ == "__main__":
    header = Header("make_language.py",
                    "Arrays are flat, row-major; the comment after the brace gives the shape.",
                    ["numpy", "torch", "transformers", "trl"])
    for case in CASES:
        case(header, np.random.default_rng(list(case.__name__.encode())))
    header.save("language.h")
