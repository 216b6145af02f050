"""Carries ppo.h's policies over to Gymnasium's own environments and appends the results to results/carried.jsonl.

Each policy is trained as ppo.py trains it, saved, read back with nothing but numpy and safetensors, and plays 100
deterministic episodes. `carry.py --policy FILE TASK` does so with one file and prints the mean return.
"""
import pathlib
import sys
import tempfile

import gymnasium
import numpy as np
from safetensors import safe_open

from common import EVAL_EPISODES, sweep
from ppo import train


def load(path):
    """The policy as a function of an observation: an action's number, or the numbers of a box before clipping."""
    with safe_open(path, "numpy") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    layers = [(tensors[f"actor.{k}.weight"], tensors[f"actor.{k}.bias"][0])
              for k in range(sum(name.startswith("actor.") and name.endswith(".weight") for name in tensors))]

    def policy(obs):
        x = np.asarray(obs, np.float32)
        if "obs_norm.mean" in tensors:
            x = (x - tensors["obs_norm.mean"]) / np.sqrt(np.maximum(tensors["obs_norm.var"], 1e-300))
            limit = float(metadata["clip_obs"])
            x = np.clip(x, -limit, limit).astype(np.float32)
        for weight, bias in layers[:-1]:
            x = np.tanh(x @ weight + bias)
        weight, bias = layers[-1]
        return x @ weight + bias

    return policy


def play(policy, task, seed):
    """The mean return of deterministic episodes."""
    env = gymnasium.make(task)
    env.reset(seed=seed)
    total = 0.0
    for _ in range(EVAL_EPISODES):
        obs, _ = env.reset()
        done = False
        while not done:
            action = policy(obs)
            if isinstance(env.action_space, gymnasium.spaces.Discrete):
                action = int(np.argmax(action))
            else:
                action = np.clip(action, env.action_space.low, env.action_space.high)
            obs, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            done = terminated or truncated
    return total / EVAL_EPISODES


def run(task, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "policy.safetensors"
        steps = train(task, seed, save=path)["steps"]
        return steps, play(load(path), task, seed), []


if __name__ == "__main__":
    if sys.argv[1:2] == ["--policy"]:
        print(play(load(sys.argv[2]), sys.argv[3], seed=1))
    else:
        sweep("carried", run)
