"""train.py - learns a task of Gymnasium, MiniGrid or Atari from Python, and says how long it took.

    python examples/python/train.py CartPole-v1
    python examples/python/train.py Acrobot-v1 --seed 2 --save build/acrobot.safetensors
    python examples/python/train.py MiniGrid-DoorKey-5x5-v0        # pip install minigrid
    python examples/python/train.py PongNoFrameskip-v4             # pip install ale-py opencv-python; hours

The settings of CartPole are those of ppo.py with 8 environments, those of Acrobot, Pendulum and Pong are of
rl-baselines3-zoo. Any other environment's name is trained with the settings of CartPole.
"""

import argparse
import time

import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FilterObservation, FrameStackObservation, TransformReward

from ppo import PPO, evaluate_policy, make_vec_env, use_kernels


def plain(name, n):
    return make_vec_env(name, n)


def minigrid(name, n):
    """What is in view, and the direction; the mission is always the same text."""
    import minigrid  # noqa: F401, registers the names

    return make_vec_env(name, n, wrapper_class=lambda env: FilterObservation(env, ["image", "direction"]))


def atari(name, n, learns=True):
    """Four frames of 84 x 84 at a time, each shown for four; rewards of -1, 0 and 1 to learn from."""
    import ale_py

    gymnasium.register_envs(ale_py)

    def wrap(env):
        env = AtariPreprocessing(env, terminal_on_life_loss=learns)
        env = TransformReward(env, lambda r: float((r > 0) - (r < 0))) if learns else env
        return FrameStackObservation(env, 4)

    return make_vec_env(name, n, wrapper_class=wrap)


def falls(initial):
    return lambda left: initial * left


# policy, environments, their number, steps, settings
USUAL = ("MlpPolicy", plain, 8, 100_000, {"n_steps": 256})
TASKS = {
    "Acrobot-v1": (
        "MlpPolicy",
        plain,
        16,
        1_000_000,
        {"n_steps": 256, "n_epochs": 4, "gae_lambda": 0.94, "normalize_obs": True, "normalize_reward": True},
    ),
    "Pendulum-v1": (
        "MlpPolicy",
        plain,
        4,
        100_000,
        {"n_steps": 1024, "gamma": 0.9, "learning_rate": 1e-3, "use_sde": True, "sde_sample_freq": 4},
    ),
    "MiniGrid-DoorKey-5x5-v0": (
        "MultiInputPolicy",
        minigrid,
        16,
        100_000,
        {
            "n_steps": 128,
            "batch_size": 128,
            "learning_rate": falls(5e-4),
            "ent_coef": 0.01,
            "byte_scale": 0.1,
            "conv": "16x2x1,32x2x1",
            "hidden": "64",
        },
    ),
    "PongNoFrameskip-v4": (
        "CnnPolicy",
        atari,
        8,
        3_000_000,
        {
            "n_steps": 128,
            "batch_size": 256,
            "n_epochs": 4,
            "learning_rate": falls(2.5e-4),
            "clip_range": falls(0.1),
            "ent_coef": 0.01,
        },
    ),
}


def whole(least, most=2**63 - 1):
    """What argparse takes as such a number."""

    def number(text):
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError("%s is outside %d to %d" % (text, least, most))
        return int(text)

    return number


def kernels(name):
    try:
        return use_kernels(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--steps", type=whole(1), help="of all environments together")
    parser.add_argument("--seed", type=whole(0, 2**64 - 1), default=1)
    parser.add_argument("--episodes", type=whole(1), default=100, help="of the evaluation")
    parser.add_argument("--save", help="a file for the policy")
    parser.add_argument("--threads", type=whole(1), default=1)
    parser.add_argument("--kernels", type=kernels, help="plain, avx2, avx512, neon: the inner loops; else the best")
    given = parser.parse_args()
    policy, make, n, steps, settings = TASKS.get(given.task, USUAL)
    model = PPO(policy, make(given.task, n), seed=given.seed, verbose=1, threads=given.threads, **settings)
    began, processor = time.time(), time.process_time()
    try:
        model.learn(given.steps or steps)
    except KeyboardInterrupt:
        print("\nended early, after %d steps" % model.num_timesteps)
    seconds, processor = time.time() - began, time.process_time() - processor
    if given.save:
        model.save(given.save)
    games = make(given.task, n, learns=False) if make is atari else make(given.task, n)
    likely = make is plain  # the others' actions are drawn, as the zoo does it: the most likely ones may go in a circle
    mean, std = evaluate_policy(model, games, given.episodes, deterministic=likely, seed=1_000_000 + given.seed)
    print("%s: mean return %.4g +- %.2g of %d episodes" % (given.task, mean, std, given.episodes))
    print("%d steps in %.0f s, %.0f s of the processor" % (model.num_timesteps, seconds, processor))


if __name__ == "__main__":
    main()
