"""Writes kto.h: the loss of KTO (Ethayarajh 2024) and its gradients, by TRL's KTOTrainer, whose model here has
log-probabilities instead of weights.

    pip install numpy torch trl
    python make_kto.py

Everything is computed in float64 from numbers that are float32.
"""
import collections
import types

import numpy as np
import torch
from trl import KTOTrainer

from golden import Header, r32

N, BETA, WEIGHTS = 9, float(np.float32(.3)), (1.5, .75)  # desirable, undesirable
rng = np.random.default_rng(7)


def by_trl(logp, kl_logp, ref, ref_kl, desirable):
    x = torch.tensor(logp, requires_grad=True)
    ones = torch.ones(N, 2, dtype=torch.long)
    outputs = types.SimpleNamespace(log_probs=x[:, None], entropy=torch.zeros(N, 1), mean_logits=torch.zeros(N, 1))
    trainer = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), aux_loss_enabled=False, precompute_ref_logps=True,
        calculate_KL=True, loss_type="kto", beta=BETA, desirable_weight=WEIGHTS[0], undesirable_weight=WEIGHTS[1],
        accelerator=types.SimpleNamespace(device="cpu", gather_for_metrics=lambda y: y), _total_train_tokens=0,
        _tp_size=1, _metrics={"train": collections.defaultdict(list)},
        _compute_kl_logps=lambda model, batch: torch.tensor(kl_logp))
    batch = {"input_ids": ones, "attention_mask": ones, "completion_mask": ones, "label": torch.tensor(desirable),
             "ref_logps": torch.tensor(ref), "ref_KL_logps": torch.tensor(ref_kl)}
    loss = KTOTrainer._compute_loss(trainer, lambda **_: outputs, batch, False)
    loss.backward()
    return loss.item(), x.grad, trainer._metrics["train"]["kl"][0]


def main():
    h = Header("make_kto.py", "See there what the numbers are.", ["trl", "torch", "numpy"])
    h.case("kto: by TRL's KTOTrainer; low_: with an estimate of the KL below 0", kto_n=N)
    h.value("float", "kto_beta", BETA)
    logp, ref, ref_kl = (r32(rng.normal(-8, 3, N)) for _ in range(3))
    kl_logp = r32(ref_kl + rng.normal(.8, 1, N))
    low = r32(ref_kl - rng.normal(.8, 1, N))
    desirable = rng.random(N) < .6
    assert 0 < desirable.sum() < N
    h.floats("kto", logp=logp, ref_logp=ref, kl_logp=kl_logp, low_kl_logp=low, ref_kl_logp=ref_kl,
             weight=np.where(desirable, WEIGHTS[0], -WEIGHTS[1]))
    for name, kl in (("", kl_logp), ("low_", low)):
        loss, grad, baseline = by_trl(logp, kl, ref, ref_kl, desirable)
        assert (baseline > 0) == (name == "")
        h.value("float", "kto_%sloss" % name, loss)
        h.array("float", "kto_%sgrad" % name, grad)
        if not name:
            h.value("float", "kto_baseline", baseline)
    h.save("kto.h")


main()
