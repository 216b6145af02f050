"""Writes yarn.h: the angles of rotary positions with YaRN's scaling by transformers, also beyond the original context.

    pip install numpy torch transformers
    python make_yarn.py
"""
import numpy as np
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from golden import Header, r32

POSITIONS = [1, 30, 200]
CASES = [dict(factor=4.0, original_max_position_embeddings=32),
         dict(factor=2.5, original_max_position_embeddings=48, beta_fast=16.0, beta_slow=2.0),
         dict(factor=1.0, original_max_position_embeddings=8)]
out = Header("make_yarn.py", "See there what the numbers are.", ["transformers", "torch", "numpy"])
angles = []
for case in CASES:
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, max_position_embeddings=256,
                         rope_parameters=dict(case, rope_type="yarn", rope_theta=10000.0))
    frequency, size = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    for position in POSITIONS:
        angle = position * frequency.double().numpy()
        angles.append(size * np.concatenate([np.cos(angle), np.sin(angle)]))
out.case("By settings and positions: cosines and sines of half of the columns each, with the factor of the scores.",
         yarn_cases=len(CASES), yarn_positions=len(POSITIONS), yarn_columns=16)
out.array("int", "yarn_position", POSITIONS)
for name, usual in [("factor", None), ("original_max_position_embeddings", None), ("beta_fast", 32), ("beta_slow", 1)]:
    out.array("float", "yarn_" + name, [case.get(name, usual) for case in CASES])
out.array("float", "yarn_angles", r32(np.stack(angles)))
out.save("yarn.h")
