"""python.py - steps per second of examples/python/ppo.py beside Stable-Baselines3's, on Gymnasium's CartPole-v1.

    make shared && python bench/python.py          # needs gymnasium and stable-baselines3

Both train on 8 environments with Stable-Baselines3's settings (256 steps of each, minibatches of 64, 10 epochs), on one
thread: Stable-Baselines3 with its DummyVecEnv; ppo.py with Gymnasium's SyncVectorEnv, with a list of environments, and with
Gymnasium's CartPole in NumPy, which steps all at once. Seconds are the processor's, so that other programs on the machine
count for less; a ratio is of medians of one run, in which all take turns.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is imported

import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "python"))
import ppo

ENVS = 8
SETTINGS = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "seed": 1}


def trainers():
    """Trainings by their names; those of ppo.py after Stable-Baselines3's."""
    import gymnasium
    import stable_baselines3
    import torch
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.set_num_threads(1)
    one = lambda: gymnasium.make("CartPole-v1")
    theirs = make_vec_env("CartPole-v1", ENVS, seed=1, vec_env_cls=DummyVecEnv)
    at_once = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="vector_entry_point")
    sync = SyncVectorEnv([one] * ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    return {
        "Stable-Baselines3": stable_baselines3.PPO("MlpPolicy", theirs, device="cpu", **SETTINGS),
        "SyncVectorEnv": ppo.PPO("MlpPolicy", sync, **SETTINGS),
        "list": ppo.PPO("MlpPolicy", [one() for _ in range(ENVS)], **SETTINGS),
        "vector_entry_point": ppo.PPO("MlpPolicy", at_once, **SETTINGS),
    }


def measure(rounds=5, steps=16384, tell=lambda text: None):
    """Ratios of steps per second to Stable-Baselines3's."""
    models = trainers()
    rates = {name: [] for name in models}
    for model in models.values():
        model.learn(ENVS * SETTINGS["n_steps"])  # not counted
    for _ in range(rounds):
        for name, model in models.items():
            began = time.process_time()
            model.learn(steps, reset_num_timesteps=True)
            rates[name].append(steps / (time.process_time() - began))
    theirs = statistics.median(rates["Stable-Baselines3"])
    ratios = {name: statistics.median(rate) / theirs for name, rate in rates.items()}
    for name, rate in rates.items():
        tell("%-20s %8.0f steps/s   %5.1f times Stable-Baselines3" % (name, statistics.median(rate), ratios[name]))
    return ratios


if __name__ == "__main__":
    import gymnasium
    import stable_baselines3
    import torch

    versions = stable_baselines3.__version__, torch.__version__.split("+")[0], gymnasium.__version__
    print("Stable-Baselines3 %s, PyTorch %s, Gymnasium %s" % versions)
    measure(tell=print)
