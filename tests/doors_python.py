"""doors_python.py - examples/python/ppo.py beside Gymnasium, and beside Stable-Baselines3. Reports in TAP."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys

import numpy as np

import python as common
from python import PPO, Skip, SMALL, evaluate_policy, make_vec_env, ppo, refuses, weights

try:
    import gymnasium
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
except ImportError:
    gymnasium = None


def needs_gymnasium():
    if gymnasium is None:
        raise Skip("there is no package gymnasium")


def vector(name, n, mode, kind=None):
    mode = {
        "SameStep": AutoresetMode.SAME_STEP,
        "NextStep": AutoresetMode.NEXT_STEP,
        "Disabled": AutoresetMode.DISABLED,
    }[mode]
    return (kind or SyncVectorEnv)([lambda: gymnasium.make(name)] * n, autoreset_mode=mode)


def each_environment_trains_in_each_form():
    """Observations of Box, Discrete, Tuple; actions of Discrete, Box; masks."""
    needs_gymnasium()
    names = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0")
    names += ("FrozenLake-v1", "Taxi-v3", "Taxi-v4", "Blackjack-v1", "CliffWalking-v1")
    for name in names:
        if name not in gymnasium.registry:
            continue
        for mode in ("list", "SameStep", "NextStep", "Disabled"):
            env = make_vec_env(name, 2) if mode == "list" else vector(name, 2, mode)
            model = PPO("MlpPolicy", env, **SMALL).learn(600)
            assert model.num_timesteps >= 600 and model.figures["episodes"] >= 0
            if name[:4] == "Taxi":
                assert model._worlds.mask is not None and model._worlds.mask.shape == (2, 6)


def forms_of_the_same_environments_train_to_the_same_bits():
    needs_gymnasium()
    for name in ("CartPole-v1", "Pendulum-v1"):
        settings = dict(SMALL, n_steps=64, batch_size=64)
        want = weights(PPO("MlpPolicy", make_vec_env(name, 4), normalize_obs=True, **settings).learn(2048))
        for mode in ("SameStep", "Disabled"):
            model = PPO("MlpPolicy", vector(name, 4, mode), normalize_obs=True, **settings).learn(2048)
            assert weights(model) == want, (name, mode)
        processes = vector(name, 4, "SameStep", AsyncVectorEnv)
        assert weights(PPO("MlpPolicy", processes, normalize_obs=True, **settings).learn(2048)) == want, name
        processes.close()
        # where an episode begins a step later, statistics take in its first observation a rollout later, if it comes after
        # the last step of one
        one = weights(PPO("MlpPolicy", name, **settings).learn(1024))
        for mode in ("SameStep", "NextStep", "Disabled"):
            assert weights(PPO("MlpPolicy", vector(name, 1, mode), **settings).learn(1024)) == one, (name, mode)


def spaces_of_gymnasium_are_written_as_its_flatten_writes_them():
    needs_gymnasium()
    from gymnasium import spaces

    for space in (
        spaces.Discrete(5, start=3),
        spaces.MultiDiscrete([2, 3, 4]),
        spaces.MultiDiscrete([[2, 3], [4, 2]]),
        spaces.MultiBinary((2, 3)),
        spaces.Box(-1, 1, (3, 2)),
        spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2,)), spaces.MultiBinary(2))),
        spaces.Dict(a=spaces.Discrete(3), z=spaces.Dict(b=spaces.Box(0, 1, (2,)), c=spaces.MultiDiscrete([3, 2]))),
    ):
        observations = ppo._Observations(space, False)
        batched = gymnasium.vector.utils.batch_space(space, 3)
        assert observations.size == spaces.flatdim(space)
        for k in range(5):
            obs = space.sample()
            row = np.zeros((1, observations.size), np.float32)
            observations.one(obs, row)
            assert np.allclose(row[0], spaces.flatten(space, obs)), space
            many = batched.sample()
            rows = np.zeros((3, observations.size), np.float32)
            observations.write(many, rows)
            for i, one in enumerate(gymnasium.vector.utils.iterate(batched, many)):
                assert np.allclose(rows[i], spaces.flatten(space, one)), space


def actions_belong_to_gymnasiums_spaces():
    needs_gymnasium()
    from gymnasium import spaces

    for space in (
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[1, 0], [0, 2]]),
        spaces.MultiBinary(4),
        spaces.MultiBinary((2, 2)),
        spaces.Box(-1, 1, (3, 2)),
        spaces.Box(np.array([0, 10, -5], np.float64), np.array([1, 20, 5], np.float64), dtype=np.float64),
        spaces.Box(np.array([0, -np.inf]), np.array([np.inf, 1]), dtype=np.float32),
    ):
        model = PPO("MlpPolicy", common.two_numbers(space), **SMALL)
        for k in range(20):
            action, _ = model.predict(common.numbers(k % 5))
            assert space.contains(action if space.shape else int(action)), (space, action)


def vector_environments_of_numpy_are_followed():
    needs_gymnasium()
    env = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="vector_entry_point")
    model = PPO("MlpPolicy", env, n_steps=128, seed=2).learn(60_000)
    mean, _ = evaluate_policy(
        model, gymnasium.make_vec("CartPole-v1", num_envs=5, vectorization_mode="vector_entry_point"), 10, seed=3
    )
    assert mean > 400, mean


def a_picture_and_numbers_of_gymnasium_train():
    needs_gymnasium()
    from gymnasium import spaces

    space = spaces.Dict(
        view=spaces.Box(0, 255, (9, 9, 3), np.uint8), speed=spaces.Box(-1, 1, (2,)), gear=spaces.Discrete(3)
    )

    class Drive(gymnasium.Env):
        observation_space, action_space = space, spaces.MultiDiscrete([3, 2])

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            self.observation_space.seed(seed)
            self.t = 0
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(action), action
            self.t += 1
            return self.observation_space.sample(), float(action[0] == 2), self.t == 20, False, {}

    gymnasium.register("ppo/Drive-v0", Drive)
    for mode in ("list", "SameStep", "NextStep"):
        env = make_vec_env("ppo/Drive-v0", 2) if mode == "list" else vector("ppo/Drive-v0", 2, mode)
        model = PPO(
            "MultiInputPolicy", env, hidden=32, seed=1, n_steps=64, n_epochs=3, learning_rate=2e-3, conv="4x3x1"
        ).learn(2000)
        assert evaluate_policy(model, env, 4)[0] > 18, mode


def a_game_of_frames_trains():
    needs_gymnasium()
    try:
        import ale_py
    except ImportError:
        raise Skip("there is no package ale-py") from None
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    make = lambda: FrameStackObservation(AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1)), 4)
    try:
        envs = [make(), make()]
    except gymnasium.error.DependencyNotInstalled:
        raise Skip("there is no package opencv-python") from None
    model = PPO("CnnPolicy", envs, n_steps=32, batch_size=32, n_epochs=1, seed=1).learn(128)
    assert model._worlds.observations.shape == (4, 84, 84) and model.settings["conv"] == "32x8x4,64x4x2,64x3x1"
    assert 0 < model._worlds.obs.max() <= 1
    action, _ = model.predict(envs[0].reset(seed=1)[0])
    assert 0 <= action < 6


def texts_among_observations_are_refused():
    needs_gymnasium()
    try:
        import minigrid  # noqa: F401
    except ImportError:
        raise Skip("there is no package minigrid") from None
    from gymnasium.wrappers import FilterObservation

    refuses("mission|FilterObservation", lambda: PPO("MultiInputPolicy", "MiniGrid-DoorKey-5x5-v0"))
    env = FilterObservation(gymnasium.make("MiniGrid-DoorKey-5x5-v0"), ["image", "direction"])
    model = PPO("MultiInputPolicy", env, **SMALL).learn(64)
    assert model._worlds.observations.size == 7 * 7 * 3 + 4 and model._worlds.observations.shape == (3, 7, 7)


def cartpole_is_learned():
    needs_gymnasium()
    model = PPO("MlpPolicy", "CartPole-v1", n_envs=8, n_steps=256, seed=1).learn(100_000)
    mean, std = evaluate_policy(model, "CartPole-v1", 20, seed=7)
    assert mean == 500 and std == 0, mean
    model.save(os.path.join(common.WORK, "cartpole"))
    again = PPO.load(os.path.join(common.WORK, "cartpole"), env="CartPole-v1")
    assert evaluate_policy(again, n_eval_episodes=5)[0] == 500


def the_programs_of_the_readme_run():
    needs_gymnasium()
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        raise Skip("there is no package onnxruntime") from None
    text = open(os.path.join(common.HERE, "..", "examples", "python", "README.md")).read()
    programs = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(programs) == 3
    before = os.getcwd()
    os.chdir(common.WORK)
    try:
        for program in programs:
            exec(program.replace(', render_mode="human"', ""), {})
        assert os.path.exists("cartpole.safetensors") and os.path.exists("cartpole.onnx") and os.path.exists("lake.onnx")
    finally:
        os.chdir(before)


def onnx_runtime_acts_as_predict_does():
    try:
        import onnxruntime
    except ImportError:
        raise Skip("there is no package onnxruntime") from None
    path = os.path.join(common.WORK, "acts.onnx")
    obs = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    for space in (common.Discrete(3), common.MultiDiscrete([3, 2]), common.Box(-2, 2, (2,))):
        model = PPO("MlpPolicy", common.two_numbers(space), **dict(SMALL, normalize_obs=True)).learn(64)
        model.export_onnx(path)
        got = onnxruntime.InferenceSession(path).run(["actions"], {"input": obs})[0]
        want = model.predict(obs, deterministic=True)[0]
        assert np.allclose(got.reshape(want.shape), want, atol=1e-5), space
    for seen, acted, see, act in common.cases_of_spaces():
        model = common.model_of(seen, see, act)
        model.export_onnx(path)
        session = onnxruntime.InferenceSession(path)
        for t in range(12):
            obs = see[1](t)
            rows = model.observation_rows(obs)
            answers = session.run(["actions"], {"input": rows})[0]
            action = model.actions_of(answers)[0]
            want = model.predict(obs, deterministic=True)[0]
            assert action.dtype == want.dtype and np.allclose(action, want, atol=1e-4), (seen, acted, action, want)


def stable_baselines3_evaluates_a_model_alike():
    needs_gymnasium()
    try:
        from stable_baselines3.common.evaluation import evaluate_policy as theirs
        from stable_baselines3.common.monitor import Monitor
    except ImportError:
        raise Skip("there is no package stable-baselines3") from None
    model = PPO("MlpPolicy", "CartPole-v1", n_envs=4, n_steps=64, seed=2).learn(4000)
    env = Monitor(gymnasium.make("CartPole-v1"))
    env.reset(seed=11)
    want = theirs(model, env, 10, return_episode_rewards=True)
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=11)
    assert evaluate_policy(model, env, 10, return_episode_rewards=True) == (want[0], want[1])


def callbacks_of_stable_baselines3_work():
    needs_gymnasium()
    try:
        from stable_baselines3.common import callbacks
        from stable_baselines3.common.monitor import Monitor
    except ImportError:
        raise Skip("there is no package stable-baselines3") from None

    class Counts(callbacks.BaseCallback):
        calls = 0

        def _on_step(self):
            self.calls += 1
            self.logger.record("mine/calls", self.calls)
            return True

    folder = os.path.join(common.WORK, "callbacks")
    counts, rises = Counts(), callbacks.StopTrainingOnRewardThreshold(reward_threshold=30, verbose=0)
    evals = callbacks.EvalCallback(
        Monitor(gymnasium.make("CartPole-v1")),
        callback_on_new_best=rises,
        eval_freq=256,
        best_model_save_path=folder,
        log_path=folder,
        verbose=0,
    )
    settings = {"n_envs": 4, "n_steps": 128, "hidden": 32, "learning_rate": 2e-3, "seed": 2, "tensorboard_log": folder}
    model = PPO("MlpPolicy", "CartPole-v1", **settings)
    model.learn(100_000, callback=callbacks.CallbackList([counts, callbacks.EveryNTimesteps(1000, Counts()), evals]))
    assert counts.calls * 4 == model.num_timesteps < 100_000  # stopped
    assert evals.best_mean_reward >= 30 and os.path.exists(os.path.join(folder, "best_model.safetensors"))
    events = os.path.join(folder, "PPO_1")
    written = b"".join(open(os.path.join(events, name), "rb").read() for name in os.listdir(events))
    assert b"mine/calls" in written and b"eval/mean_reward" in written and b"total_timesteps" not in written
    refuses("Stable-Baselines3", lambda: model.learn(512, callbacks.CheckpointCallback(100, folder)))
    forms = ("CartPole-v1", make_vec_env("CartPole-v1", 2), vector("CartPole-v1", 2, "NextStep"))
    for env in forms:
        stops, dones = callbacks.StopTrainingOnMaxEpisodes(3), []
        counts = lambda locals_, globals_: dones.append(locals_["dones"].sum())
        model = PPO("MlpPolicy", env, **SMALL).learn(10_000, callback=[stops, counts])
        assert 3 * model.n_envs <= sum(dones) < 4 * model.n_envs and model.num_timesteps < 10_000
        model.learn(64, callbacks.LogEveryNTimesteps(10))
        try:
            bar = callbacks.ProgressBarCallback()
        except ImportError:  # of tqdm or rich
            continue
        for more in (64, 32):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                model.learn(more, bar, reset_num_timesteps=more == 64)
            assert bar.pbar.total == more <= bar.pbar.n < more + 4, (bar.pbar.total, bar.pbar.n)


def the_program_that_trains_takes_no_numbers_that_cannot_be():
    needs_gymnasium()
    program = os.path.join(common.HERE, "..", "examples", "python", "train.py")
    refused = "--steps 0", "--steps -5", "--steps x", "--episodes 0", "--threads 0", "--seed -1", "--seed %d" % 2**64
    refused += ("--kernels avx9",)
    for flags in refused:
        command = [sys.executable, "-B", program, "CartPole-v1", *flags.split()]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        name = flags.split()[0]
        assert done.returncode == 2 and "argument %s: " % name in done.stderr.splitlines()[-1], (flags, done.stderr)


def the_speed_is_a_multiple_of_stable_baselines3s():
    """bench/python.py, in a few seconds."""
    needs_gymnasium()
    try:
        ratios = runpy.run_path(os.path.join(common.HERE, "..", "bench", "python.py"))["measure"](rounds=1, steps=8192)
    except ImportError as error:
        raise Skip("there is no package %s" % error.name) from None
    assert ratios["SyncVectorEnv"] > 5 and ratios["vector_entry_point"] > 15, ratios


if __name__ == "__main__":
    failed = common.run(
        [
            spaces_of_gymnasium_are_written_as_its_flatten_writes_them,
            actions_belong_to_gymnasiums_spaces,
            each_environment_trains_in_each_form,
            forms_of_the_same_environments_train_to_the_same_bits,
            vector_environments_of_numpy_are_followed,
            a_picture_and_numbers_of_gymnasium_train,
            a_game_of_frames_trains,
            texts_among_observations_are_refused,
            cartpole_is_learned,
            the_programs_of_the_readme_run,
            onnx_runtime_acts_as_predict_does,
            stable_baselines3_evaluates_a_model_alike,
            callbacks_of_stable_baselines3_work,
            the_program_that_trains_takes_no_numbers_that_cannot_be,
            the_speed_is_a_multiple_of_stable_baselines3s,
        ]
    )
    common.clean()
    sys.exit(failed > 0)
