"""Stable-Baselines3's PPO on CartPole-v1 with the settings of cartpole.c, on one thread of the processor.

sb3_cartpole.py SEED prints the versions and the environment steps per second. A first rollout is not counted.
"""
import sys
import time

import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

STEPS = 10 * 4 * 512


def train(seed, steps):
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=4, seed=seed, vec_env_cls=DummyVecEnv),
        n_steps=512,
        batch_size=64,
        n_epochs=10,
        learning_rate=3e-4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh},
        device="cpu",
        seed=seed,
    )
    start = time.perf_counter()
    model.learn(steps)
    return steps / (time.perf_counter() - start)


torch.set_num_threads(1)
print("sb3", stable_baselines3.__version__, "torch", torch.__version__.split("+")[0])
train(0, 4 * 512)
print(train(int(sys.argv[1]), STEPS))
