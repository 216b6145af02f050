"""python.py - examples/python/ppo.py with numpy alone: what it tells the library, and what it refuses. Reports in TAP.

PPO_LIBRARY names the library. Tests beside Gymnasium are in doors_python.py.
"""

import base64
import contextlib
import ctypes
import ctypes.util
import io
import json
import math
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import zipfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "examples", "python"))
import convert  # noqa: E402
import ppo  # noqa: E402
from ppo import PPO, CheckpointCallback, evaluate_policy, make_vec_env  # noqa: E402

WORK = tempfile.mkdtemp(prefix="ppo-python-")
SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "hidden": "8", "seed": 3}

# --- spaces and environments, in the form of Gymnasium's -------------------------------------------------------------


class Discrete:
    shape, dtype = (), np.dtype(np.int64)

    def __init__(self, n, start=0):
        self.n, self.start = n, start

    def __eq__(self, other):
        return type(other) is type(self) and vars(self) == vars(other)


class MultiDiscrete:
    dtype = np.dtype(np.int64)

    def __init__(self, nvec, start=0):
        self.nvec, self.start = np.array(nvec), np.array(start)
        self.shape = self.nvec.shape


class MultiBinary:
    dtype = np.dtype(np.int8)

    def __init__(self, n):
        self.n, self.shape = n, (n,) if isinstance(n, int) else n


class Box:
    def __init__(self, low, high, shape=None, dtype=np.float32):
        self.shape = np.shape(low) if shape is None else shape
        self.low, self.high = np.full(self.shape, low, dtype), np.full(self.shape, high, dtype)
        self.dtype = np.dtype(dtype)

    def __eq__(self, other):
        return type(other) is type(self) and self.shape == other.shape


class Dict:
    def __init__(self, **spaces):
        self.spaces = spaces


class Text:
    pass


class Counter:
    """Shows how many steps its episode has, and which episode it is; rewards are 10 * episode + step. Episodes have 2, 3,
    4, 2, ... steps; every second one is truncated."""

    observation_space, action_space, metadata, spec = Box(0, 100, (2,)), Discrete(2), {}, None

    def __init__(self):
        self.episode = -1

    def reset(self, seed=None, options=None):
        self.episode += 1
        self.t = 0
        return np.array([self.t, self.episode], np.float64), {}

    def step(self, action):
        assert action in (0, 1)
        self.t += 1
        over = self.t == 2 + self.episode % 3
        obs = np.array([self.t, self.episode], np.float64)
        return obs, 10.0 * self.episode + self.t, over and self.episode % 2 == 0, over and self.episode % 2 == 1, {}


class Vector:
    """A vector environment in each of Gymnasium's three ways."""

    def __init__(self, envs, mode):
        self.envs, self.num_envs = envs, len(envs)
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = envs[0].observation_space, envs[0].action_space
        self.spec = envs[0].spec

    def infos(self, each):
        """Masks as Gymnasium gives them: an array, and which of its rows are of this step."""
        masks = {i: info["action_mask"] for i, info in each.items() if "action_mask" in info}
        if not masks:
            return {}
        rows = np.zeros((self.num_envs, len(next(iter(masks.values())))), np.int8)
        for i, mask in masks.items():
            rows[i] = mask
        return {"action_mask": rows, "_action_mask": np.isin(range(self.num_envs), list(masks))}

    def reset(self, seed=None, options=None):
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        each = {}
        if options is None:
            self.last = [None] * self.num_envs
        for i in np.flatnonzero(chosen).tolist():
            self.last[i], each[i] = self.envs[i].reset(seed=None if seed is None else seed + i)
        self.over = np.zeros(self.num_envs, bool)
        return np.array(self.last), self.infos(each)

    def step(self, actions):
        assert actions.shape == (self.num_envs,) and actions.dtype == np.int64
        rewards, ends, cuts = np.zeros(self.num_envs), np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        final, each = np.full(self.num_envs, None, object), {}
        for i, env in enumerate(self.envs):
            if self.metadata["autoreset_mode"] == "NextStep" and self.over[i]:
                self.last[i], each[i] = env.reset()
                continue
            self.last[i], rewards[i], ends[i], cuts[i], each[i] = env.step(int(actions[i]))
            if self.metadata["autoreset_mode"] == "SameStep" and (ends[i] or cuts[i]):
                final[i] = self.last[i]
                self.last[i], each[i] = env.reset()
        self.over = ends | cuts
        infos = self.infos(each)
        if any(f is not None for f in final):
            infos["final_obs"] = final
        return np.array(self.last), rewards, ends, cuts, infos


class Random:
    """ppo.h's random numbers: the stream of an environment."""

    class State(ctypes.Structure):
        _fields_ = [("words", ctypes.c_uint32 * 11)]

    def __init__(self, seed, index):
        stream, self.range = ppo._lib().ppo_rng_stream, ppo._lib().ppo_rng_range
        stream.restype, stream.argtypes = self.State, [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
        self.range.restype, self.range.argtypes = ctypes.c_float, [
            ctypes.POINTER(self.State),
            ctypes.c_float,
            ctypes.c_float,
        ]
        self.state = stream(seed, 0, index)

    def draw(self, low, high):
        return self.range(ctypes.byref(self.state), low, high)


class CartPole:
    """examples/envs/cartpole.h, with the numbers that are drawn there."""

    class spec:
        id = "CartPole-v1"

    observation_space, action_space, metadata = Box(-5, 5, (4,)), Discrete(2), {}

    def __init__(self, seed, index):
        self.random = Random(seed, index)

    def reset(self, seed=None, options=None):
        self.state, self.t = [self.random.draw(-0.05, 0.05) for _ in range(4)], 0
        return np.array(self.state, np.float32), {}

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force, cos, sin = 10.0 if action == 1 else -10.0, math.cos(theta), math.sin(theta)
        pole, mass = 0.1 * 0.5, 0.1 + 1.0
        accel = (force + pole * (theta_dot * theta_dot) * sin) / mass
        theta_acc = (9.8 * sin - cos * accel) / (0.5 * (4.0 / 3.0 - 0.1 * (cos * cos) / mass))
        x_acc = accel - pole * theta_acc * cos / mass
        self.state = [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc]
        self.t += 1
        over = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * 2 * math.pi / 360
        return np.array(self.state, np.float32), 1.0, over, not over and self.t == 500, {}


class Plays:
    """An environment of any spaces, whose reward is a function of the action; an episode has 5 steps, or `steps`."""

    metadata, spec = {}, None

    def __init__(self, observation_space, action_space, observe, pay=lambda action: 1.0, info=lambda t: {}, steps=5):
        self.observation_space, self.action_space = observation_space, action_space
        self.observe, self.pay, self.info, self.steps, self.actions = observe, pay, info, steps, []

    def reset(self, seed=None, options=None):
        self.t = 0
        return self.observe(self.t), self.info(self.t)

    def step(self, action):
        self.t += 1
        self.actions.append(np.array(action))
        return self.observe(self.t), self.pay(action), self.t == self.steps, False, self.info(self.t)


def numbers(t):
    return np.array([t / 5, 1], np.float32)


def two_numbers(action_space, **more):
    return Plays(Box(-1, 1, (2,)), action_space, numbers, **more)


# --- helpers ---------------------------------------------------------------------------------------------------------


def tensors(path):
    """The arrays of a policy's file that training changes."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    names = json.loads(data[8 : 8 + size])
    skip = ("__metadata__", "adam", "trainer", "environments")
    return {
        n: data[8 + size + a["data_offsets"][0] : 8 + size + a["data_offsets"][1]]
        for n, a in names.items()
        if not n.startswith(skip)
    }


def weights(model):
    model.save(os.path.join(WORK, "weights.safetensors"))
    return tensors(os.path.join(WORK, "weights.safetensors"))


def refuses(words, call, error=ValueError):
    try:
        call()
    except error as e:
        assert all(word in str(e) for word in words.split("|")), "%r does not name %s" % (str(e), words)
        return
    raise AssertionError("it was not refused: %s" % words)


# --- tests with numpy alone ------------------------------------------------------------------------------------------


def told(worlds, steps):
    """What the library is told of a number of steps: obs, reward, over, and final_obs of those that end."""
    worlds.reset(None)
    rows = [[r.tolist() for r in worlds.obs]]
    for _ in range(steps):
        if len(worlds.begun):
            rows.append(["begin"] + [r.tolist() for r in worlds.begin()[0]])
        worlds.step()
        over = worlds.terminated | worlds.truncated
        rows.append(
            [
                (worlds.obs[i].tolist(), float(worlds.reward[i]), "TC"[int(worlds.truncated[i])] if over[i] else "")
                + (
                    (worlds.final_obs[i].tolist(),)
                    if over[i] and getattr(worlds, "mode", "SameStep") == "SameStep"
                    else ()
                )
                for i in range(worlds.n)
            ]
        )
    return rows


def each_way_to_begin_an_episode_is_told_as_it_is():
    same = [
        [[0, 0]],
        [([1, 0], 1, "")],
        [([0, 1], 2, "T", [2, 0])],
        [([1, 1], 11, "")],
        [([2, 1], 12, "")],
        [([0, 2], 13, "C", [3, 1])],
    ]
    later = [[[0, 0]], [([1, 0], 1, "")], [([2, 0], 2, "T")], [([0, 1], 0, "")], [([1, 1], 11, "")], [([2, 1], 12, "")]]
    disabled = [
        [[0, 0]],
        [([1, 0], 1, "")],
        [([2, 0], 2, "T")],
        ["begin", [0, 1]],
        [([1, 1], 11, "")],
        [([2, 1], 12, "")],
        [([3, 1], 13, "C")],
    ]
    for env, want in (
        ([Counter()], same),
        (Vector([Counter()], "SameStep"), same),
        (Vector([Counter()], "NextStep"), later),
        (Vector([Counter()], "Disabled"), disabled),
    ):
        got = told(ppo._worlds(env, None, False, None), 5)
        assert got == want, got


def the_ways_train_to_the_same_bits():
    settings = dict(SMALL, n_steps=12, batch_size=12)
    envs = lambda: [Counter() for _ in range(3)]
    want = weights(PPO("MlpPolicy", envs(), **settings).learn(36 * 3))
    for mode in ("SameStep", "Disabled"):
        assert weights(PPO("MlpPolicy", Vector(envs(), mode), **settings).learn(36 * 3)) == want, mode
    # sources that begin a step later are not in step afterwards: the first rollout alone is the same
    want = weights(PPO("MlpPolicy", envs(), **settings).learn(36))
    assert weights(PPO("MlpPolicy", Vector(envs(), "NextStep"), **settings).learn(36)) == want
    want = weights(PPO("MlpPolicy", Counter(), **settings).learn(36))
    assert weights(PPO("MlpPolicy", Vector([Counter()], "NextStep"), **settings).learn(36)) == want


def cartpole_in_python_trains_to_the_bits_of_build_train():
    """... which pulls, in C."""
    steps, n = 640, 4
    path = os.path.join(WORK, "pulled.safetensors")
    for more in ("", "--normalize-obs yes --normalize-reward yes"):
        command = "build/train --quiet --kernels %s --seed 5 --num-envs %d --rollout-steps 64 --hidden 16 --steps %d --epochs 3 --save %s"
        command = command % (ppo.use_kernels(), n, steps, path)
        subprocess.run(command.split() + more.split(), check=True, stdout=subprocess.DEVNULL)
        model = PPO(
            "MlpPolicy",
            [CartPole(5, k) for k in range(n)],
            n_steps=64,
            n_epochs=3,
            hidden=16,
            vf_coef=0.25,
            learning_rate_schedule="linear",
            seed=5,
            normalize_obs=bool(more),
            normalize_reward=bool(more),
        ).learn(steps)
        got, want = weights(model), tensors(path)
        assert sorted(got) == sorted(want) and len(got) >= 8
        for name in want:
            assert got[name] == want[name], name


def actions_are_those_of_the_space():
    spaces = {
        "discrete": (Discrete(3, start=5), lambda a: a.shape == () and 5 <= a <= 7),
        "multi-discrete": (
            MultiDiscrete([3, 2], [1, 0]),
            lambda a: a.shape == (2,) and 1 <= a[0] <= 3 and 0 <= a[1] <= 1,
        ),
        "grid": (MultiDiscrete([[3, 2], [2, 4]]), lambda a: a.shape == (2, 2) and (a < [[3, 2], [2, 4]]).all()),
        "bits": (MultiBinary(3), lambda a: a.shape == (3,) and a.dtype == np.int8 and set(a) <= {0, 1}),
        "box": (Box(-2, 2, (2,)), lambda a: a.shape == (2,) and a.dtype == np.float32 and (abs(a) <= 2).all()),
        "ranges": (Box([0, 100], [1, 200]), lambda a: 0 <= a[0] <= 1 and 100 <= a[1] <= 200),
        "half": (Box([0, -np.inf], [np.inf, np.inf]), lambda a: a[0] >= 0),
        "free": (Box(-np.inf, np.inf, (1, 2)), lambda a: a.shape == (1, 2)),
    }
    for name, (space, holds) in spaces.items():
        env = two_numbers(space)
        model = PPO("MlpPolicy", env, **SMALL).learn(64)
        assert len(env.actions) == 64 and all(holds(a) for a in env.actions), (name, env.actions[:3])
        if name not in ("grid",):
            values = {np.array2string(a, precision=3) for a in env.actions}
            assert len(values) > 1, name
        one, _ = model.predict(numbers(1))
        many, _ = model.predict(np.array([numbers(1), numbers(2)]), deterministic=True)
        assert holds(np.array(one)) and len(many) == 2 and all(holds(np.array(a)) for a in many), name


def actions_are_within_bounds_that_no_float32_is():
    for low, high, kind in (
        (-0.1, 0.1, np.float64),  # as float32 a little outside
        ([-0.1, -1 / 3], [0.1, 1 / 3], np.float64),
        ([-0.1, -np.inf], [np.inf, 0.1], np.float64),
        (-0.1, 0.1, np.float16),
        (0, 2**31 - 1, np.int32),
        ([0, 5], [250, 255], np.uint8),
    ):
        space = Box(low, high, (2,), kind)
        env = two_numbers(space)
        PPO("MlpPolicy", env, log_std_init=2, **SMALL).learn(64)
        actions = np.array(env.actions)
        assert actions.dtype == kind and (actions >= space.low).all() and (actions <= space.high).all(), (low, kind)
        assert (actions == space.low).any() and (actions == space.high).any(), (low, kind)  # at the very bounds


def ranges_of_their_own_are_used_to_both_ends():
    env = two_numbers(Box([0, 100], [1, 200]))
    PPO("MlpPolicy", env, **SMALL).learn(200)
    actions = np.array(env.actions)
    assert (actions.min(0) == [0, 100]).all() and (actions.max(0) == [1, 200]).all()  # clipped there
    assert abs(actions.mean(0) - [0.5, 150]).max() < 15


def observations_are_numbers():
    picture = np.arange(24, dtype=np.uint8).reshape(
        2, 3, 4
    )  # height, width, channels? the smallest is 2: channels first
    last = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
    write = lambda space, obs, convolve=False, **more: (lambda o, row: (o.one(obs, row), row[0])[1])(
        ppo._Observations(space, convolve, **more), np.zeros((1, ppo._Observations(space, convolve).size), np.float32)
    ).tolist()
    close = lambda a, b: np.allclose(a, b, atol=1e-7)
    assert write(Discrete(4, start=2), 3) == [0, 1, 0, 0]
    assert write(MultiDiscrete([2, 3]), np.array([1, 2])) == [0, 1, 0, 0, 1]
    assert write(MultiBinary(3), np.array([1, 0, 1], np.int8)) == [1, 0, 1]
    assert write(Box(-1, 1, (2, 2), np.float64), np.array([[1, 2], [3, 4.5]])) == [1, 2, 3, 4.5]
    assert write(Dict(b=Box(0, 1, (1,)), a=Discrete(2)), {"a": 1, "b": np.array([7.0])}) == [7, 0, 1]
    assert close(write(Box(0, 255, picture.shape, np.uint8), picture), np.arange(24) / 255)
    assert close(write(Box(0, 255, picture.shape, np.uint8), picture, True), np.arange(24) / 255)
    assert close(write(Box(0, 255, last.shape, np.uint8), last, True), np.moveaxis(last, -1, 0).ravel() / 255)
    assert close(
        write(Box(0, 255, last.shape, np.uint8), last, True, byte_scale=0.1), np.moveaxis(last, -1, 0).ravel() / 10
    )
    space = Dict(n=Box(0, 1, (2,)), p=Box(0, 255, last.shape, np.uint8))
    obs = {"n": np.array([5.0, 6]), "p": last}
    assert close(write(space, obs, True), list(np.moveaxis(last, -1, 0).ravel() / 255) + [5, 6])
    o = ppo._Observations(space, True)
    assert o.shape == (2, 4, 3) and o.byte_scale == np.float32(1 / 255)
    batch, rows = {"n": np.array([[1.0, 2], [3, 4]]), "p": np.stack([last, last + 1])}, np.zeros((2, 26), np.float32)
    o.write(batch, rows)
    assert close(rows[1], list(np.moveaxis(last + 1, -1, 0).ravel() / 255) + [3, 4]) and o.count(batch) == 2
    assert o.count(obs) == 0 and ppo._Observations(Discrete(3), False).count(2) == 0
    refuses("Text|'mission'", lambda: ppo._Observations(Dict(mission=Text(), n=Discrete(2)), False))
    refuses("2 pictures", lambda: ppo._Observations(Dict(a=Box(0, 1, (8, 8, 3)), b=Box(0, 1, (8, 8, 3))), True))
    refuses("shape (3,), not (2,)", lambda: ppo._Observations(Box(0, 1, (2,)), False).count(np.zeros(3)))


def pictures_and_numbers_train():
    rng = np.random.default_rng(1)
    see = lambda t: {"board": rng.integers(0, 256, (8, 8, 1), np.uint8), "next": t % 3}
    space = Dict(board=Box(0, 255, (8, 8, 1), np.uint8), next=Discrete(3))
    env = Plays(space, Discrete(2), see)
    model = PPO("MultiInputPolicy", env, conv="4x3x1", **SMALL).learn(48)
    assert model.settings["conv"] == "4x3x1" and "conv.0.weight" in weights(model)
    action, _ = model.predict(see(1))
    assert action in (0, 1)
    model.save(os.path.join(WORK, "picture.safetensors"))
    again = PPO.load(os.path.join(WORK, "picture.safetensors"), env=env)
    obs = see(2)
    assert again.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]
    again.learn(32)
    model = PPO("CnnPolicy", Plays(Box(0, 255, (4, 4, 3), np.uint8), Discrete(2), None))
    assert model.settings["conv"] == "16x2x1,32x2x1,64x2x1" and model.settings["hidden"] == "512"
    fits = lambda *size: ppo._convolutions((3,) + size)
    assert (
        fits(84, 84) == "32x8x4,64x4x2,64x3x1"
        and fits(96, 96) == "32x8x4,64x5x2,64x3x1"
        and fits(4, 9) == "16x2x1,32x2x1,64x2x1"
    )
    refuses("210 x 160|resize", lambda: fits(210, 160))
    refuses("3 x 3|conv", lambda: fits(3, 3))
    refuses("CnnPolicy|three dimensions", lambda: PPO("CnnPolicy", Counter()))


def what_is_no_choice_is_refused():
    for space, bad in (
        (Discrete(3), 0.5),
        (Discrete(3), math.nan),
        (Discrete(3, start=-1), -0.5),
        (MultiDiscrete([2, 3]), [0, 1.5]),
        (MultiDiscrete([2, 3]), [0, math.nan]),
        (MultiBinary(2), [0, 0.5]),
        (MultiBinary(2), [0, 2]),
        (MultiBinary(2), [math.nan, 0]),
        (Dict(a=Discrete(3)), {"a": np.float32(0.5)}),
    ):
        for n, late in ((1, False), (2, True)):  # a single one, and rows of several at once
            env = lambda: Plays(space, Discrete(2), lambda t: bad if t or not late else space_zeros(space))
            refuses("is not in the space", lambda: PPO("MlpPolicy", [env() for _ in range(n)], **SMALL).learn(32))
    assert PPO("MlpPolicy", Plays(Discrete(3), Discrete(2), lambda t: 1.0), **SMALL).learn(32)
    assert PPO("MlpPolicy", Plays(MultiBinary(2), Discrete(2), lambda t: [True, False]), **SMALL).learn(32)


def space_zeros(space):
    if isinstance(space, Dict):
        return {key: 0 for key in space.spaces}
    return np.zeros(space.shape) + getattr(space, "start", 0)


def sizes_that_a_policy_cannot_have_are_named():
    header = open(os.path.join(HERE, "..", "ppo.h")).read()
    assert "PPO_MAX_CHOICES = %d " % ppo._MOST_CHOICES in header
    act = lambda space: lambda: PPO("MlpPolicy", two_numbers(space), **SMALL)
    for most in (MultiDiscrete([3] * 128), MultiBinary(128)):
        assert act(most)().predict(numbers(0))[0].shape == (128,)
    for more in (MultiDiscrete([3] * 129), MultiDiscrete([[2] * 100] * 2), MultiBinary(129), MultiDiscrete([2] * 5000)):
        refuses("%s of|choices, more than 128" % type(more).__name__, act(more))
    refuses("10000000000 options, more than 16777215", act(Discrete(10**10)))
    refuses("10000000000 options, more than 16777215", act(MultiDiscrete([2, 10**10])))
    for none in (Box(-1, 1, (0,)), Box(-1, 1, (2, 0)), MultiDiscrete([]), MultiBinary((0, 3))):
        refuses("the action space has no numbers", act(none))
        refuses("the observation space has no numbers", lambda: PPO("MlpPolicy", Plays(none, Discrete(2), None)))


def illegal_actions_are_never_taken():
    legal = lambda t: {"action_mask": np.array([t % 2, 1 - t % 2, 0, 1], np.int8)}
    env = two_numbers(Discrete(4), info=legal)
    model = PPO("MlpPolicy", env, **SMALL).learn(100)
    assert {int(a) for a in env.actions[0::5]} <= {1, 3} and {int(a) for a in env.actions[1::5]} <= {0, 3}
    env.actions.clear()
    evaluate_policy(model, env, 3, deterministic=False)
    assert {int(a) for a in env.actions[0::5]} <= {1, 3} and {int(a) for a in env.actions[1::5]} <= {0, 3}
    for _ in range(20):
        assert model.predict(numbers(0), action_masks=[0, 0, 1, 0])[0] == 2
    # masks now and then, in other steps of one environment than of the other
    seldom = lambda t: {} if t % 2 else {"action_mask": [0, 1, 0, 0]}
    for mode in ("list", "SameStep", "NextStep", "Disabled"):
        envs = [two_numbers(Discrete(4), info=seldom, steps=n) for n in (5, 3)]
        worlds = envs if mode == "list" else Vector(envs, mode)
        model = PPO("MlpPolicy", worlds, **SMALL).learn(200)
        for _ in range(2):
            for env in envs:
                taken = np.array(env.actions)
                assert (taken[0 :: env.steps] == 1).all() and (taken[2 :: env.steps] == 1).all(), mode
                assert np.mean(taken[1 :: env.steps] != 1) > 0.5, mode  # of four
                env.actions.clear()
            evaluate_policy(model, worlds, 40, deterministic=False)
    several = two_numbers(MultiDiscrete([2, 3]), info=lambda t: {"action_mask": np.array([1, 0, 0, 1, 1])})
    PPO("MlpPolicy", several, **SMALL).learn(40)
    assert all(a[0] == 0 and a[1] > 0 for a in several.actions)
    refuses(
        "mask|source 0",
        lambda: PPO("MlpPolicy", two_numbers(Discrete(2), info=lambda t: {"action_mask": [0, 0]}), **SMALL).learn(9),
    )
    model = PPO("MlpPolicy", two_numbers(Discrete(4)), **SMALL)
    refuses("action_masks has shape (1,), not (1, 4)", lambda: model.predict(numbers(0), action_masks=[1]))
    refuses("(4,), not (2, 4)", lambda: model.predict(np.zeros((2, 2)), action_masks=[1, 0, 0, 0]))
    pair = two_numbers(MultiDiscrete([2, 3]), info=lambda t: {"action_mask": (np.array([1, 0]), np.array([0, 1, 1]))})
    PPO("MlpPolicy", pair, **SMALL).learn(40)
    assert all(a[0] == 0 and a[1] > 0 for a in pair.actions)


def masks_may_be_a_method():
    class Masked(Plays):
        def action_masks(self):
            return [self.t % 2 == 0, self.t % 2 == 1, False]

    class Wrapper:
        def __init__(self, env):
            self.env, self.reset, self.step, self.spec, self.metadata = env, env.reset, env.step, None, {}
            self.observation_space, self.action_space = env.observation_space, env.action_space

    for way in ("plain", "wrapped", "SameStep", "NextStep", "Disabled"):
        env = Masked(Box(-1, 1, (2,)), Discrete(3), numbers)
        worlds = {"plain": env, "wrapped": Wrapper(env)}.get(way) or Vector([env], way)
        model = PPO("MlpPolicy", worlds, **SMALL).learn(60)
        evaluate_policy(model, worlds, 2, deterministic=False)
        assert [int(a) for a in env.actions[:60]] == [k % 5 % 2 for k in range(60)], way


def what_an_environment_does_not_keep_to_is_named():
    def learn(env, n=1, **more):
        return PPO("MlpPolicy", env, **dict(SMALL, **more)).learn(32)

    def sees(space, *observed, **more):
        return lambda: learn(Plays(space, Discrete(2), lambda t: observed[min(t, len(observed) - 1)], **more))

    ok, three = np.zeros(3), Box(-1, 1, (3,))
    for bad, words in (
        (np.array([0.5]), "environment 0: observation has shape (1,), the space says (3,)"),
        (0.5, "shape (), the space says (3,)"),
        (np.zeros((1, 3)), "shape (1, 3), the space says (3,)"),
        (np.zeros(4), "shape (4,)"),
        ([1, [2, 3], 4], "observation is not an array of numbers"),
        (None, "not an array of numbers: None"),
        ({"a": ok}, "not an array of numbers"),
    ):
        refuses(words, sees(three, bad))  # by reset(), and by step()
        refuses(words, sees(three, ok, bad))
    refuses("observation has shape (3,), the space says (3, 1)", sees(Box(-1, 1, (3, 1)), ok))
    refuses("environment 1", lambda: learn([Plays(three, Discrete(2), lambda t, n=n: np.zeros(n)) for n in (3, 1)]))
    space = Dict(pos=Box(0, 1, (2,)), gear=Discrete(3))
    see = lambda **more: dict({"pos": np.zeros(2), "gear": 1}, **more)
    refuses("environment 0: observation['pos'] has shape (3,), the space says (2,)", sees(space, see(pos=ok)))
    refuses("there is no observation['pos']", sees(space, see(), {"gear": 1}))
    refuses("there is no observation['pos']", sees(space, np.zeros(2)))
    refuses("observation['gear'] has shape (1,), the space says ()", sees(space, see(gear=np.array([1]))))
    refuses("observation['gear'] is [[7]]|it is 0 .. 2", sees(space, see(gear=7)))
    refuses("observation is [[7]]|it is 2 .. 4", sees(Discrete(3, start=2), 2, 7))
    refuses("observation is [[1, 3]]|[2, 3] choices", sees(MultiDiscrete([2, 3]), np.array([1, 3])))
    sees(Discrete(3, start=2), 2, 3, 4)()
    for mask in ([1], [1, 0, 1], [[1, 0], [1, 0]]):
        refuses("environment 0: the mask has|2 options", sees(three, ok, info=lambda t: {"action_mask": mask}))
    refuses('"action_masks"|"action_mask"', sees(three, ok, info=lambda t: {"action_masks": [1, 1]}))
    env = Counter()
    refuses("same environment twice", lambda: PPO("MlpPolicy", [env, env]))
    refuses("same environment twice", lambda: PPO("MlpPolicy", [lambda: env, Counter, lambda: env]))
    refuses("same environment twice", lambda: PPO("MlpPolicy", lambda: env, n_envs=2))

    pays = lambda reward: learn(
        [Plays(three, Discrete(2), lambda t: ok, lambda a: reward), Plays(three, Discrete(2), lambda t: ok)]
    )
    want = weights(pays(1.0))
    for one in (np.array([1.0]), np.float32(1), 1, np.array(1), [1.0], True):
        assert weights(pays(one)) == want
    refuses("environment 0: reward is array([1., 2.]), not a number", lambda: pays(np.array([1.0, 2.0])))
    refuses("environment 0: reward is None", lambda: pays(None))
    refuses("environment 0: reward is 'much'", lambda: pays("much"))

    class Old(Counter):
        def step(self, action):
            obs, reward, over, _, info = super().step(action)
            return obs, reward, over, info

    class Older(Old):
        def reset(self):
            return super().reset()[0]

    class Oldest(Counter):
        def reset(self, seed=None):
            return super().reset()[0]

    refuses("environment 0: step() returns 4 results, not the 5", lambda: learn(Old()))
    refuses("environment 0|unexpected keyword argument 'seed'|reset(seed=None", lambda: learn(Older()))
    refuses("environment 0: reset() returns a ndarray, not the 2", lambda: learn(Oldest()))

    class Shaped(Vector):
        def step(self, actions):
            obs, reward, *rest = super().step(actions)
            return (change(obs), pay(reward), *rest)

    for change, pay, words in (
        (lambda o: o[:, :1], lambda r: r, "the vector environment of 2: observation has shape (2, 1)"),
        (lambda o: o[:1], lambda r: r, "observation has shape (1, 2), the space says (2, 2)"),
        (lambda o: o, lambda r: r[:1], "reward has 1 numbers, there are 2"),
        (lambda o: o, lambda r: 1.0, "reward has 1 numbers, there are 2"),
    ):
        refuses(words, lambda: learn(Shaped([Counter(), Counter()], "SameStep")))
    model = PPO("MlpPolicy", Plays(space, Discrete(2), lambda t: see()), **SMALL)
    refuses("observation['gear'] is [[3]]", lambda: model.predict(see(gear=3)))
    refuses("there is no observation['pos']", lambda: model.predict({"gear": 1}))
    model.save(os.path.join(WORK, "dict"))
    loaded = PPO.load(os.path.join(WORK, "dict"))
    refuses("the observation is a dict|PPO.load(path, env=...) knows the Dict", lambda: loaded.predict(see()))


def what_an_environment_raises_is_passed_on():
    class Broken(Counter):
        def step(self, action):
            if self.episode == 3:
                raise KeyError("the world ends")
            return super().step(action)

    env = Broken()
    model = PPO("MlpPolicy", env, **SMALL)
    refuses("the world ends", lambda: model.learn(1000), KeyError)
    before = model.predict(np.zeros(2), deterministic=True)
    model.set_env(Counter())
    model.learn(40)  # goes on
    assert before[0] in (0, 1)

    class NotANumber(Counter):
        def step(self, action):
            return np.array([np.nan, 0]), 0.0, False, False, {}

    refuses("observation|NaN", lambda: PPO("MlpPolicy", NotANumber(), **SMALL).learn(10), FloatingPointError)


def ctrl_c_ends_a_training_which_can_go_on():
    model = PPO("MlpPolicy", [Counter() for _ in range(4)], n_steps=512, n_epochs=1000, seed=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    killer = threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT))
    killer.start()  # it learns by then, for seconds
    refuses("", lambda: model.learn(4096), KeyboardInterrupt)
    assert model.predict(np.zeros(2))[0] in (0, 1)
    model._config.put("epochs", 1)
    model.learn(2048)


def callbacks_see_and_stop():
    calls = []

    def function(locals_, globals_):
        calls.append((locals_["self"].num_timesteps, locals_["rewards"].tolist(), locals_["dones"].tolist()))
        return len(calls) < 5

    model = PPO("MlpPolicy", [Counter(), Counter()], **SMALL).learn(1000, callback=function)
    assert [c[0] for c in calls] == [2, 4, 6, 8, 10] and calls[1][1] == [2, 2] and calls[1][2] == [True, True]

    class Object:
        names = []

        def on_training_start(self, locals_, globals_):
            self.names.append("start")

        def on_rollout_start(self):
            self.names.append("rollout")

        def on_step(self):
            assert self.model is model and self.num_timesteps == self.model.num_timesteps

        def on_rollout_end(self):
            self.names.append("learned %d" % self.model.figures["iteration"])

        def on_training_end(self):
            self.names.append("end")

    model.learn(64, callback=[Object(), lambda *_: None])
    assert Object.names == ["start", "rollout", "learned 1", "rollout", "learned 2", "rollout", "end"], Object.names
    assert model.num_timesteps == 64 and model.figures["steps"] == 64 and model.figures["first_ratio_max"] == 1
    refuses("callback 7", lambda: model.learn(10, callback=7))
    refuses("callback is the class Object|Object()", lambda: model.learn(10, callback=Object))
    duck = type("Duck", (), {"_on_step": lambda self: True})
    refuses("_on_step()|no on_step()", lambda: model.learn(10, callback=duck()))


def callbacks_know_the_environments_and_the_end():
    class Asks:
        def init_callback(self, model):  # before the locals are there, as Stable-Baselines3's do
            self.n_envs = model.get_env().num_envs

        def on_training_start(self, locals_, globals_):
            self.total, self.name = locals_["total_timesteps"], locals_["tb_log_name"]

    for n in (1, 2):
        asks, model = Asks(), PPO("MlpPolicy", [Counter() for _ in range(n)], **SMALL)
        model.learn(32, callback=asks)
        assert (asks.n_envs, asks.total, asks.name) == (n, 32, "PPO")
        model.learn(32, callback=asks, reset_num_timesteps=False, tb_log_name="more")
        assert (asks.n_envs, asks.total, asks.name) == (n, 64, "more")
        model.learn(32, callback=asks)
        assert asks.total == 32
        assert len(model.get_env()) == n and evaluate_policy(model, model.get_env(), 2)
    assert PPO("MlpPolicy", Counter(), **SMALL).get_env().reset()[0].shape == (2,)
    refuses("2 environments has no reset", lambda: model.get_env().reset(), AttributeError)
    assert PPO("MlpPolicy", Vector([Counter()], "SameStep"), **SMALL).get_env().num_envs == 1


def checkpoints_are_saved_on_the_way():
    folder = os.path.join(WORK, "new", "checkpoints")
    there = {}

    def keep(locals_, globals_):
        there[locals_["self"].num_timesteps] = weights(locals_["self"])

    model = PPO("MlpPolicy", [Counter(), Counter()], **SMALL)
    model.learn(64, callback=[keep, CheckpointCallback(save_freq=10, save_path=folder, name_prefix="net")])
    assert sorted(os.listdir(folder)) == ["net_%d_steps.safetensors" % n for n in (20, 40, 60)]
    kept = [weights(PPO.load(os.path.join(folder, "net_%d_steps" % n))) for n in (20, 40, 60)]
    assert kept == [there[n] for n in (20, 40, 60)] and kept[0] != kept[1]
    refuses("save_freq", lambda: CheckpointCallback(0, folder))
    refuses("CheckpointCallback", lambda: model.save("rl_model_100_steps.zip"))


def callbacks_record_figures():
    where = os.path.join(WORK, "recorded")
    model = PPO("MlpPolicy", Counter(), tensorboard_log=where, **SMALL)

    class Records:
        def init_callback(self, model):  # as Stable-Baselines3's have it
            self.logger = model.logger

        def on_step(self):
            self.logger.record("mine/one", 1)
            self.logger.record("mine/text", "words")
            self.logger.record("mine/hidden", 1, exclude=("stdout", "tensorboard"))

    model.learn(16, callback=Records())
    assert not model.logger.name_to_value
    model.logger.record("mine/later", 1)
    model.logger.dump(1)  # no log is open
    folder = os.path.join(where, "PPO_1")
    written = b"".join(open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder))
    assert [name in written for name in (b"mine/one", b"mine/text", b"mine/hidden")] == [True, False, False]


def settings_have_both_names():
    defaults = PPO("MlpPolicy", Counter()).settings
    assert (defaults["rollout_steps"], defaults["minibatch_size"], defaults["epochs"]) == ("2048", "64", "10")
    assert (defaults["value_coef"], defaults["learning_rate_schedule"], defaults["adam_eps"]) == (
        "1",
        "constant",
        "1e-05",
    )
    model = PPO(
        "MlpPolicy",
        Counter(),
        learning_rate=1e-3,
        clip_range=0.1,
        clip_range_vf=0.3,
        ent_coef=0.01,
        vf_coef=0.7,
        target_kl=0.02,
        policy_kwargs={
            "net_arch": {"pi": [32, 16], "vf": [32, 16]},
            "activation_fn": type("ReLU", (), {}),
            "ortho_init": False,
            "optimizer_kwargs": {"eps": 1e-7, "betas": (0.8, 0.95)},
        },
        normalize_obs=True,
        layer_norm="yes",
        threads=2,
    ).settings
    for name, value in {
        "learning_rate": "0.001",
        "clip_low": "0.1",
        "clip_high": "0.1",
        "value_clip": "0.3",
        "entropy_coef": "0.01",
        "value_coef": "1.4",
        "target_kl": "0.02",
        "hidden": "32,16",
        "activation": "relu",
        "init": "uniform",
        "adam_eps": "1e-07",
        "adam_beta1": "0.8",
        "normalize_obs": "yes",
        "layer_norm": "yes",
        "threads": "2",
    }.items():
        assert model[name] == value, (name, model[name])
    box = two_numbers(Box(-1, 1, (1,)))
    box = PPO("MlpPolicy", box, use_sde=True, sde_sample_freq=4, policy_kwargs={"log_std_init": -2}).settings
    assert (box["gsde"], box["gsde_steps"], box["log_std_init"]) == ("yes", "4", "-2")
    a2c = PPO("MlpPolicy", Counter(), preset="a2c", gamma=0.9).settings
    assert (a2c["rollout_steps"], a2c["learning_rate"], a2c["gamma"], a2c["num_envs"]) == ("5", "0.0007", "0.9", "1")
    conv = PPO(
        "CnnPolicy", Plays(Box(0, 1, (9, 9, 1)), Discrete(2), None), conv=[[8, 3, 1], [4, 3, 2]], hidden=[16]
    ).settings
    assert (conv["conv"], conv["hidden"]) == ("8x3x1,4x3x2", "16")
    text = ppo.settings()
    assert "gae_lambda" in text and "0.95" in text and len(text.splitlines()) == len(defaults)
    for line in text.splitlines():
        name, rest = line.split(None, 1)
        shown = re.search(r"\[%s[];]" % re.escape(defaults[name]), rest)
        assert shown or name in ("num_envs", "seed", "total_steps"), line
    assert "[2048] (n_steps)" in text and "[1] (vf_coef=0.5, half of this)" in text
    assert "\nobjective               what is maximized, not k3-penalty  [clip; clip|kl-penalty|" in text
    assert 'with objective="kl-penalty"' in text and "--" not in text
    words = lambda name: re.search("\n%s .*; (.*)\\]" % name, text)[1].split("|")
    for name in ("objective", "activation", "init", "learning_rate_schedule", "clip_schedule", "entropy_schedule"):
        assert len(words(name)) > 1
        for word in words(name):
            assert PPO("MlpPolicy", Counter(), **{"ent_coef": 0.01, name: word}).settings[name] == word
    refuses("k3-penalty", lambda: PPO("MlpPolicy", Counter(), objective="k3-penalty").learn(8))  # not among the words


def environments_are_made_by_classes_and_functions():
    want = weights(PPO("MlpPolicy", [Counter(), Counter()], **SMALL).learn(64))
    for env in ([Counter, lambda: Counter()], [Counter(), Counter]):
        assert weights(PPO("MlpPolicy", env, **SMALL).learn(64)) == want
    for env in (Counter, lambda: Counter()):
        model = PPO("MlpPolicy", env, n_envs=2, **SMALL).learn(64)
        assert weights(model) == want and model.n_envs == 2 and len(model.get_env()) == 2
        assert PPO("MlpPolicy", env, **SMALL).n_envs == 1
    wrapped = []
    made = make_vec_env(Counter, 3, wrapper_class=lambda env: (wrapped.append(env), env)[1])
    assert len(made) == 3 and wrapped == made and evaluate_policy(model, made, 3)[0] == 3


def what_cannot_be_is_refused():
    make = lambda **more: lambda: PPO("MlpPolicy", Counter(), **more)
    refuses('no setting "entropy"|"entropy_coef"', make(entropy=0.1))
    refuses('"learning_rate"', make(learningrate=0.1))
    refuses('no setting "zzz"', make(zzz=1))
    refuses("gamma is 1.5", make(gamma=1.5))
    refuses("use_sde", make(use_sde=True))  # without a box
    refuses("n_steps is 0", make(n_steps=0))
    refuses("rollout_steps is 0", make(rollout_steps=0))
    refuses("batch_size 64|n_envs 1 * n_steps 16", lambda: PPO("MlpPolicy", Counter(), n_steps=16).learn(32))
    refuses("ent_coef is -1", make(ent_coef=-1))
    refuses("clip_range is -1", make(clip_range=-1))
    refuses("clip_range is 'x'", make(clip_range="x"))
    refuses("vf_coef is -1", make(vf_coef=-1))
    refuses("vf_coef is 'x'", make(vf_coef="x"))
    refuses("n_envs is 0, must be 1", lambda: PPO("MlpPolicy", Counter, n_envs=0))
    refuses("n_envs is 1.5, must be a whole number", lambda: PPO("MlpPolicy", Counter, n_envs=1.5))
    for bad in ("x", None, 0.5, math.nan, math.inf, 1j, "0.5"):
        refuses("seed is %r, must be a whole number" % bad, lambda: ppo._whole("seed", bad))
    for good in (2**53 + 1, 2**64 - 1):  # not all of these are floats
        for kind in (int, np.uint64, str):
            assert make(seed=kind(good))().settings["seed"] == str(good)
    refuses("sde_sample_freq is 'x', must be a whole number", make(sde_sample_freq="x"))
    refuses("sde_sample_freq is 2.5, must be a whole number", make(sde_sample_freq=2.5))
    refuses("seed|below 2^64", make(seed=2**64))
    refuses("n_steps and rollout_steps are the same", make(n_steps=16, rollout_steps=32))
    refuses("vf_coef and value_coef are the same", make(vf_coef=0.3, value_coef=1))
    refuses("hidden is given twice|policy_kwargs", make(policy_kwargs={"net_arch": [8]}, hidden=8))
    refuses("device|cuda", make(device="cuda"))
    refuses("MlpLstmPolicy|recurrent", lambda: PPO("MlpLstmPolicy", Counter()))
    refuses("pi and vf", make(policy_kwargs={"net_arch": {"pi": [8], "vf": [9]}}))
    refuses("features_extractor_class|conv", make(policy_kwargs={"features_extractor_class": 1}))
    refuses("momentum", make(policy_kwargs={"optimizer_kwargs": {"momentum": 1}}))
    refuses("activation|softmax", make(policy_kwargs={"activation_fn": "softmax"}))
    refuses("n_envs is 3|1 environments", make(n_envs=3))
    refuses("no preset", make(preset="fast"))
    refuses("neither an environment", lambda: PPO("MlpPolicy", 7))
    refuses("empty", lambda: PPO("MlpPolicy", []))
    refuses("action_space", lambda: PPO("MlpPolicy", [Counter(), two_numbers(Discrete(3))]))
    refuses("autoreset_mode", lambda: PPO("MlpPolicy", Vector([Counter()], "Never")))
    refuses("Text", lambda: PPO("MlpPolicy", Plays(Text(), Discrete(2), None)))
    refuses("actions are of Dict", lambda: PPO("MlpPolicy", Plays(Box(0, 1, (2,)), Dict(), None)))
    final = Vector([Counter()], "SameStep")
    final.metadata = {"autoreset_mode": "NextStep"}
    model = PPO("MlpPolicy", final, **SMALL)
    model._worlds.mode = "SameStep"  # says so, and does not
    refuses("final_obs", lambda: model.learn(20))
    model = PPO("MlpPolicy", Counter(), **SMALL)
    refuses("2 numbers, the environment has 4", lambda: model.set_env(CartPole(1, 0)))
    refuses("discrete 2|discrete 3", lambda: model.set_env(two_numbers(Discrete(3))))
    refuses("total_timesteps is 0, must be 1", lambda: model.learn(0))
    refuses("total_timesteps is 'x'", lambda: model.learn("x"))
    refuses("n_eval_episodes is 0, must be 1", lambda: evaluate_policy(model, n_eval_episodes=0))
    refuses("nowhere", lambda: PPO.load(os.path.join(WORK, "nowhere", "x.safetensors")), OSError)
    model.save(os.path.join(WORK, "refused"))
    path = os.path.join(WORK, "refused.safetensors")
    refuses("there is no environment", lambda: PPO.load(path).learn(10))
    refuses("there is no environment", lambda: evaluate_policy(PPO.load(path)))
    refuses("hidden", lambda: PPO.load(path, env=Counter(), hidden="9").learn(10))


def schedules_are_functions_of_what_remains():
    seen = []
    model = PPO("MlpPolicy", Counter(), **dict(SMALL, learning_rate=lambda left: (seen.append(left), 1e-3 * left)[1]))
    rates = []

    class Keep:
        def on_rollout_end(self):
            rates.append(model.figures["learning_rate"])

    model.learn(64, callback=Keep())
    assert np.allclose(rates, [1e-3, 0.75e-3, 0.5e-3, 0.25e-3]) and seen[0] == 1.0
    model = PPO("MlpPolicy", Counter(), **dict(SMALL, clip_range=lambda left: 0.2 * left))
    model.learn(
        64,
        callback=(
            Keep2 := type("Keep2", (), {"on_rollout_end": lambda s: rates.append(model.figures["clip_range"])})
        )(),
    )
    assert np.allclose(rates[4:], [0.2, 0.15, 0.1, 0.05])

    def fails(left):
        if left < 0.9:
            raise ZeroDivisionError("no rate")
        return 1e-3

    refuses(
        "no rate", lambda: PPO("MlpPolicy", Counter(), **dict(SMALL, learning_rate=fails)).learn(64), ZeroDivisionError
    )


def what_a_schedule_gives_is_a_number_each_time():
    then = lambda first, later: lambda left: first if left == 1 else later
    make = lambda name, *gives: PPO("MlpPolicy", Counter(), **{**SMALL, name: then(*gives)})
    for name in ppo._SCHEDULED:
        for bad in (None, "1e-3", b"1", [1], 1j, np.array([1e-3, 0])):
            refuses("%s is %r, neither a number" % (name, bad), lambda: make(name, bad, bad))
            refuses("%s is %r, neither a number" % (name, bad), lambda: make(name, 0.1, bad).learn(64))
        for bad in (math.nan, math.inf, -0.5, 1e39):
            refuses("%s is %r, must be a finite number" % (name, bad), lambda: make(name, bad, bad))
            refuses("%s is %r, must be a finite number" % (name, bad), lambda: make(name, 0.1, bad).learn(64))
        refuses("%s is nan, must be a finite" % name, lambda: PPO("MlpPolicy", Counter(), **{**SMALL, name: math.nan}))
        for good in (1, np.float32(0.25), np.array(0.25), 0):
            assert make(name, 0.1, good).learn(64).figures["iteration"] == 4
    wide = make("clip_range", 0.1, 3.0)  # as with the number 3
    assert [wide._config._scheduled(k, 0.1, 0.5, None) for k in (1, 2)] == [1, 3]


def what_was_a_function_is_given_anew_to_a_policy_that_was_loaded():
    path, left = os.path.join(WORK, "scheduled"), lambda share: 0.01 * share
    for name, (schedule, own) in ppo._SCHEDULED.items():
        PPO("MlpPolicy", Counter(), **dict(SMALL, **{name: left})).learn(32).save(path)
        model = PPO.load(path, env=Counter())
        assert model.settings[schedule] == "custom" and model.predict(numbers(0))[0] in (0, 1)
        refuses("%s was a function|pass %s=" % (name, name), lambda: model.learn(32))
        model = PPO.load(path, env=Counter(), **{name: 0.02}).learn(32)
        assert model.settings[schedule] == "constant" and model.settings[list(own)[-1]] == "0.02"
        assert PPO.load(path, env=Counter(), **{name: left}).learn(32).settings[schedule] == "custom"
        refuses("%s is 'x', neither a number nor a function" % name, lambda: PPO.load(path, **{name: "x"}))
    model = PPO("MlpPolicy", Counter(), **dict(SMALL, ent_coef=lambda share: share))
    rates = []
    model.learn(
        32, callback=type("Keep", (), {"on_rollout_end": lambda s: rates.append(model.figures["entropy_coef"])})()
    )
    assert np.allclose(rates, [1, 0.5])


def a_file_of_stable_baselines3_is_told_how_to_convert():
    path = os.path.join(WORK, "theirs")
    open(path + ".zip", "wb").write(b"PK\3\4 and so on")
    for given in (path, path + ".zip"):
        refuses("theirs.zip|convert.py", lambda: PPO.load(given))
    os.rename(path + ".zip", path + ".safetensors")
    refuses("theirs.safetensors|convert.py", lambda: PPO.load(path))


def converted(data, *flags, name="given.zip"):
    """What convert.py says of a file, and the policy it wrote, or None; there is nothing beside it."""
    folder = os.path.join(WORK, "convert")
    os.makedirs(folder, exist_ok=True)
    source, to = os.path.join(folder, name), os.path.join(folder, "policy.safetensors")
    if data is not None:
        open(source, "wb").write(data)
    said, argv = io.StringIO(), sys.argv
    sys.argv = ["convert.py", source, "-o", to, *flags]
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = convert.main()
    finally:
        sys.argv = argv
    there = os.listdir(folder)
    policy = tensors(to) if os.path.exists(to) else None
    if policy:
        PPO.load(to)  # ppo.h takes what was written
    for file in there:
        if os.path.isfile(os.path.join(folder, file)) and file.startswith("policy."):
            os.remove(os.path.join(folder, file))
    said = said.getvalue()
    if status:
        assert status == 1 and said.count("\n") == 1 and policy is None, said
        assert not [file for file in there if file.endswith(".tmp")], there
    return said.strip(), policy


def refuses_file(words, data, *flags, **more):
    said, policy = converted(data, *flags, **more)
    assert policy is None and all(word in said for word in words.split("|")), "%r does not say %s" % (said, words)


def zipped(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return stream.getvalue()


def torch_file(weights):
    """As torch.save() has it, but that the pickle has numpy's arrays."""
    return zipped(archive__data_dot_pkl=pickle.dumps(weights))


def serialized(thing):
    return {":serialized:": base64.b64encode(pickle.dumps(thing)).decode()}


def sb3_file(parts={}, weights={}, **changes):
    """A small one of Stable-Baselines3, with changes to its JSON, its weights, its members."""
    layers = {"mlp_extractor.policy_net.0": (4, 2), "mlp_extractor.value_net.0": (4, 2), "action_net": (3, 4)}
    arrays = {"value_net.weight": np.ones((1, 4), "f4"), "value_net.bias": np.zeros(1, "f4")}
    for name, shape in layers.items():
        arrays.update({name + ".weight": np.ones(shape, "f4"), name + ".bias": np.zeros(shape[0], "f4")})
    arrays.update(weights)
    box = Box(-1, 1, (2,))
    box._shape = (2,)
    data = {"action_space": serialized(Discrete(3)), "observation_space": serialized(box), "gamma": 0.9}
    data.update(changes)
    members = {"data": json.dumps(data), "policy_dot_pth": torch_file(arrays)}
    return zipped(**dict(members, **parts))


def safetensors_file(kind="F32", numbers=lambda a: a.astype("<f4"), **changes):
    """An actor and a critic of one layer each."""
    header, data = {}, b""
    for name, shape in (("actor.0.weight", (2, 3)), ("actor.0.bias", (2,)), ("critic.0.weight", (1, 3))):
        part = numbers(np.arange(np.prod(shape)).reshape(shape) / 2).tobytes()
        entry = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        header[name] = dict(entry, **changes) if name == "actor.0.bias" else entry
        data += part
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


TWO = ("--action-space", "discrete 2")


def each_type_of_a_safetensors_file_is_read_or_named():
    upper = lambda a: (a.astype("<f4").view("<u4") >> 16).astype("<u2")  # bfloat16
    want = converted(safetensors_file(), *TWO)[1]
    assert want and len(want) == 4
    for kind, numbers in (("BF16", upper), ("F16", lambda a: a.astype("<f2")), ("F64", lambda a: a.astype("<f8"))):
        assert converted(safetensors_file(kind, numbers), *TWO)[1] == want, kind
    want = converted(safetensors_file(numbers=lambda a: a.astype("i1").astype("<f4")), *TWO)[1]
    for kind in ("I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"):
        numbers = lambda a: a.astype("<" + kind.lower()[0] + str(int(kind[1:]) // 8))
        assert converted(safetensors_file(kind, numbers), *TWO)[1] == want, kind
    refuses_file("given.zip: actor.0.weight is of the type F8_E4M3|BF16", safetensors_file("F8_E4M3"), *TWO)
    for changes, words in (
        ({"shape": [-1]}, "actor.0.bias is not described"),
        ({"shape": 2}, "actor.0.bias is not described"),
        ({"dtype": "F64"}, "actor.0.bias has 8 bytes, not the 16"),
        ({"data_offsets": [24, 40]}, "actor.0.bias has 16 bytes, not the 8"),
        ({"data_offsets": [-8, 0]}, "actor.0.bias is not described"),
        ({"data_offsets": [1000, 1008]}, "actor.0.bias has 0 bytes, not the 8"),
        ({"data_offsets": [24]}, "actor.0.bias is not described"),
    ):
        refuses_file(words, safetensors_file(**changes), *TWO)


def damaged_files_are_refused_by_one_sentence():
    whole, plain = sb3_file(), safetensors_file()
    said, policy = converted(whole)
    assert policy and not said, said
    for end in (10, len(whole) // 2, len(whole) - 200, len(whole) - 30, len(whole) - 1):
        refuses_file("given.zip: this is a .zip whose end is missing", whole[:end], *TWO)
    at = whole.index(b'"gamma"')
    refuses_file("given.zip: data in it cannot be read", whole[:at] + b"#" + whole[at + 1 :])  # of another sum
    refuses_file("given.zip: this is a damaged .zip", whole.replace(b"PK\1\2", b"PK\1\1"))
    refuses_file("data in it is no JSON object, but a list", sb3_file({"data": "[]"}))
    for bad in ("{", b"\xff", "[" * 100000):
        refuses_file("given.zip: data in it is no JSON: ", sb3_file({"data": bad}))
    refuses_file("policy.pth is no dictionary", sb3_file({"policy_dot_pth": torch_file([1])}))
    refuses_file("policy.pth is no dictionary", sb3_file({"policy_dot_pth": torch_file({1: 2})}))
    refuses_file("policy.pth is no dictionary", sb3_file(weights={"value_net.bias": 7}))
    refuses_file("policy.pth is not a file of PyTorch", sb3_file({"policy_dot_pth": b"x"}))
    refuses_file("policy.pth cannot be read", sb3_file({"policy_dot_pth": zipped(a__data_dot_pkl=b"\x80\x04junk")}))
    refuses_file("policy_kwargs is 5, no dictionary", sb3_file(policy_kwargs=5))
    for bad in ("A", 7):
        refuses_file("action_space is damaged", sb3_file(action_space={":serialized:": bad}))
    refuses_file("an action space NoneType is not known", sb3_file(action_space=None))
    refuses_file("observations of the kind int", sb3_file(observation_space=5))
    refuses_file("an activation 1 is not known", sb3_file(policy_kwargs={"activation_fn": 1}))
    refuses_file("given.zip: it is damaged|TypeError", sb3_file(action_space=serialized(Discrete(None))))
    for junk in (b"", b"x", b"PK", b"<html>no file</html>", bytes(100), whole[5:], b"\xff" * 9):
        refuses_file("given.zip: ", junk, *TWO)
    for end in (4, 12, 60):
        assert converted(plain[:end], *TWO)[0].endswith("this is no file of Stable-Baselines3, PyTorch or safetensors")
    refuses_file("critic.0.weight has 11 bytes, not the 12", plain[:-1], *TWO)
    refuses_file("there is a b among the weights", sb3_file(weights={"a\nb": np.zeros(1)}))
    statistics = zipped(x="y")
    open(os.path.join(WORK, "convert", "stats.pkl"), "wb").write(statistics)
    stats = os.path.join(WORK, "convert", "stats.pkl")
    refuses_file("stats.pkl: the pickle of VecNormalize cannot be read", whole, "--normalize", stats)
    refuses_file("nowhere.pkl: No such file", whole, "--normalize", "nowhere.pkl")
    refuses_file("nowhere.zip: No such file", None, name="nowhere.zip")
    rng = np.random.default_rng(1)
    for data in (whole, plain, torch_file({"actor.0.weight": np.ones((2, 3), "f4")})):
        for _ in range(60):
            bad = bytearray(data)
            for at in rng.integers(0, len(bad), 3):
                bad[at] = rng.integers(256)
            said, policy = converted(bytes(bad), *TWO)
            assert policy or said.startswith("convert.py: " + os.path.join(WORK, "convert", "given.zip: ")), said


def action_spaces_are_sizes_and_bounds():
    kinds = {
        "discrete": ("", "inf", "2.5", "nan", "0", "-2", "x", "2 3"),
        "box": ("", "2 -1", "0 -1 1", "2 1 -1", "2 1 1", "2 nan 1", "2.5 -1 1", "inf -1 1"),
        "multi-discrete": ("", "2,0", "2,2.5", "inf,2"),
        "multi-binary": ("0", "1.5", "2 2"),
    }
    for bad in ["%s %s" % (kind, rest) for kind in kinds for rest in kinds[kind]]:
        refuses_file('convert.py: --action-space "%s": ' % bad, safetensors_file(), "--action-space", bad)
    refuses_file("at most 128", safetensors_file(), "--action-space", "multi-binary 129")
    refuses_file("at most 128", safetensors_file(), "--action-space", "multi-discrete " + ",".join(["2"] * 129))
    refuses_file("4 outputs|multi-binary 128", safetensors_file(), "--action-space", "multi-binary 128")
    refuses_file("there is no log_std", safetensors_file(), "--action-space", "box 2 -inf inf")
    refuses_file("2 outputs|box 200", safetensors_file(), "--action-space", "box 200 -1 1")
    refuses_file("needs --action-space", safetensors_file())
    assert "MOST_CHOICES = %d " % ppo._MOST_CHOICES in open(convert.__file__).read()


def settings_that_are_converted_are_those_that_ppo_h_takes():
    name, ends = (ctypes.c_char_p * 5)(), (ctypes.c_double * 2)()
    number, seen = 0, 0
    while not ppo._lib().ppo_flat_setting(number, name, ends, None):
        if name[0].decode() in convert.RANGES:
            least, most = convert.RANGES[name[0].decode()]
            assert [least, most] == list(ends) and isinstance(least, int) == (name[1] == b"int"), name[0]
            seen += 1
        number += 1
    assert seen == len(convert.RANGES)
    for change, words in (
        ({"gamma": 5}, "gamma would be 5, in ppo.h it is from 0.0 to 1.0"),
        ({"gamma": math.nan}, "gamma would be nan"),
        ({"vf_coef": math.inf}, "value_coef would be inf"),
        ({"n_steps": 0}, "rollout_steps would be 0, in ppo.h it is a whole number from 1"),
        ({"n_steps": 2.5}, "rollout_steps would be 2.5"),
        ({"batch_size": 10**12}, "minibatch_size would be 1000000000000"),
        ({"learning_rate": -1.0}, "learning_rate would be -1.0"),
    ):
        refuses_file("given.zip: " + words, sb3_file(**change))
    rate = serialized(np.float64(0.25))
    for change in ({"clip_range": 3.0}, {"n_steps": 64.0}, {"gamma": 1}, {"learning_rate": rate}):
        assert converted(sb3_file(**change))[1], change
    rms = lambda n: Values(mean=np.zeros(n), var=np.ones(n), count=1.0)
    path = os.path.join(WORK, "convert", "stats.pkl")
    for limit in (math.inf, 5.0):
        norm = VecNormalize(obs_rms=rms(2), ret_rms=rms(1), clip_obs=limit, clip_reward=limit)
        pickle.dump(norm, open(path, "wb"))
        assert "obs_norm.mean" in converted(sb3_file(), "--normalize", path)[1]
    pickle.dump(VecNormalize(obs_rms=rms(2), ret_rms=rms(1), clip_obs=0.0), open(path, "wb"))
    refuses_file("stats.pkl: clip_obs would be 0.0", sb3_file(), "--normalize", path)


class Values:
    """What has these fields, for a pickle."""

    def __init__(self, **fields):
        vars(self).update(fields)


class VecNormalize(Values):
    pass


def what_is_converted_goes_where_it_should():
    folder = os.path.join(WORK, "convert")
    to = lambda *path: ("-o", os.path.join(folder, *path))
    assert converted(safetensors_file(), *TWO, *to("new", "deep", "policy.safetensors"))[0] == ""
    assert os.listdir(os.path.join(folder, "new", "deep")) == ["policy.safetensors"]
    before = sorted(os.listdir(folder))
    refuses_file("convert.py: -o %s: this is a folder" % to("new")[1], safetensors_file(), *TWO, *to("new"))
    os.mkfifo(os.path.join(folder, "pipe"))
    refuses_file("pipe: this is no plain file", safetensors_file(), *TWO, *to("pipe"))
    os.remove(os.path.join(folder, "pipe"))
    refuses_file("convert.py: -o|File exists", safetensors_file(), *TWO, *to("given.zip", "below"))
    replace = os.replace
    os.replace = lambda *paths: replace("nowhere", paths[1])  # fails when the numbers are written
    try:
        refuses_file("convert.py: -o|No such file", safetensors_file(), *TWO)
    finally:
        os.replace = replace
    assert sorted(os.listdir(folder)) == before


def a_seed_repeats_a_training():
    train = lambda seed: weights(
        PPO("MlpPolicy", [CartPole(1, k) for k in range(2)], **dict(SMALL, seed=seed)).learn(200)
    )
    assert train(4) == train(4) != train(5)
    a, b = PPO("MlpPolicy", Counter()), PPO("MlpPolicy", Counter())
    assert a.seed != b.seed
    again = PPO("MlpPolicy", Counter(), seed=a.seed)
    assert weights(again) == weights(a) != weights(b)
    model = PPO("MlpPolicy", Counter(), **SMALL).learn(32)
    before = weights(model)
    assert weights(model.learn(32, reset_num_timesteps=False)) != before and model.num_timesteps == 64
    assert model.settings["seed"] == str(SMALL["seed"] + 1)  # other random numbers
    last = PPO("MlpPolicy", Counter(), **dict(SMALL, seed=2**64 - 1)).learn(32)
    last.save(os.path.join(WORK, "last"))
    again = PPO.load(os.path.join(WORK, "last"), env=Counter())
    assert again.seed == 0 and again.learn(32).settings["seed"] == "0"


def kernels_are_chosen_by_name():
    best = ppo.use_kernels()
    train = lambda: weights(PPO("MlpPolicy", [CartPole(1, k) for k in range(2)], **SMALL).learn(200))
    trained = train()
    assert ppo.use_kernels("plain") == "plain" and (best == "plain" or train() != trained)
    refuses('has no kernels "avx9"|the best is "%s"' % best, lambda: ppo.use_kernels("avx9"))
    assert ppo.use_kernels(best) == best and train() == trained


def a_policy_is_saved_and_loaded():
    model = PPO("MlpPolicy", [CartPole(1, k) for k in range(2)], **dict(SMALL, normalize_obs=True, gamma=0.9)).learn(
        400
    )
    path = os.path.join(WORK, "saved")
    model.save(path)
    obs = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    loaded = PPO.load(path + ".safetensors")
    assert (loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]).all()
    assert loaded.settings["gamma"] == "0.9" and loaded.settings["hidden"] == "8" and weights(loaded) == weights(model)
    assert loaded.action_space.n == 2 and loaded.observation_space.shape == (4,)
    watch = subprocess.run(
        [
            "build/train",
            "--env",
            "CartPole-v1",
            "--load",
            path + ".safetensors",
            "--no-train",
            "--eval-episodes",
            "2",
            "--json",
            "--quiet",
        ],
        stdout=subprocess.PIPE,
    )
    assert watch.returncode == 0 and json.loads(watch.stdout)["eval_episodes"] == 2  # the name is CartPole-v1
    more = PPO.load(path, env=[CartPole(2, 0)], learning_rate=1e-2, n_epochs=1)
    assert more.n_envs == 1 and more.settings["learning_rate"] == "0.01" and more.settings["epochs"] == "1"
    assert weights(more.learn(100)) != weights(model)
    for space, text in ((MultiDiscrete([3, 2]), "nvec"), (MultiBinary(2), "n"), (Box(-2, 2, (2,)), "low")):
        model = PPO("MlpPolicy", two_numbers(space), **SMALL)
        model.save(path)
        loaded = PPO.load(path)
        assert hasattr(loaded.action_space, text)
        obs = np.random.default_rng(2).normal(size=(20, 2)).astype(np.float32)
        assert np.array_equal(loaded.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])


def a_scale_of_bytes_is_kept():
    """In the environment's name: MiniGrid's policies answered nonsense where it was not given anew."""
    path = os.path.join(WORK, "scaled.safetensors")
    draw = np.random.default_rng(3)
    env = lambda: Plays(Box(0, 255, (6, 6, 2), np.uint8), Discrete(3), lambda t: draw.integers(0, 11, (6, 6, 2), np.uint8))
    obs = draw.integers(0, 11, (50, 6, 6, 2), np.uint8)
    for policy in ("MlpPolicy", "CnnPolicy"):
        more = {} if policy == "MlpPolicy" else {"conv": "4x3x1"}
        model = PPO(policy, env(), **dict(SMALL, byte_scale=0.1, **more)).learn(64)
        model.save(path)
        want = model.observation_rows(obs)
        assert want.max() == 1
        loaded = PPO.load(path, env=env())
        assert loaded.byte_scale == 0.1 and (loaded.observation_rows(obs) == want).all()
        loaded.learn(64).save(path)
        assert PPO.load(path).byte_scale == 0.1 and PPO.load(path, byte_scale=0.5).byte_scale == 0.5
    PPO("MlpPolicy", env(), **SMALL).save(path)
    assert PPO.load(path).byte_scale is None
    for name in ("Space", "a" * 80, "é" * 40, "", None):
        for scale in (0.1, 1 / 3, 1e-20, 3.0, None):
            text = ppo._name_with_scale(name, scale) or b""
            kept = ppo._scale_of_name(text)
            assert len(text) < 64 and text.decode().startswith((name or "")[:10])
            assert kept == scale or abs(kept - scale) < 1e-8 * scale


def a_policy_is_exported():
    at = lambda name: os.path.join(WORK, "exported", name)
    model = PPO("MlpPolicy", Counter(), **SMALL)
    model.export_onnx(at("plain.onnx"))
    model.export_onnx(at("masked.onnx"), mask=True, value=True)
    model.export_onnx(at("unity.onnx"), names="ml-agents")
    has = lambda name: [
        n for n in (b"action_masks", b"values", b"obs_0", b"logits") if n in open(at(name), "rb").read()
    ]
    assert has("plain.onnx") == [b"logits"] and has("masked.onnx") == [b"action_masks", b"values", b"logits"]
    assert b"obs_0" in has("unity.onnx") and b"values" not in has("unity.onnx")
    model.export_c(at("policy.h"))
    model.export_c(at("mine.h"), "pilot")
    assert "policy_predict" in open(at("policy.h")).read() and "pilot_predict" in open(at("mine.h")).read()
    refuses("names is 'unity'|ml-agents", lambda: model.export_onnx(at("x.onnx"), names="unity"))
    refuses("invalid name", lambda: model.export_c(at("x.h"), "2x"))
    box = PPO("MlpPolicy", two_numbers(Box(-1, 1, (1,))), **SMALL)
    refuses("mask has no effect", lambda: box.export_onnx(at("x.onnx"), mask=True))
    refuses("export_onnx()|.safetensors|p.onnx", lambda: model.save(at("p.onnx")))
    refuses("export_c()|.safetensors", lambda: model.save(at("p.h")))
    refuses("Stable-Baselines3|.safetensors", lambda: model.save(at("x.ZIP")))
    refuses("pickle|.safetensors", lambda: model.save(at("x.pkl")))
    assert sorted(os.listdir(at(""))) == ["masked.onnx", "mine.h", "plain.onnx", "policy.h", "unity.onnx"]


def names_of_files_are_taken_whole_or_refused():
    where = os.path.join(WORK, "names")
    os.mkdir(where)
    model = PPO("MlpPolicy", Counter(), **SMALL)
    bad = os.path.join(where, "a\0b")
    for call in (model.save, model.export_onnx, model.export_c, PPO.load):
        for path in (bad, os.fsencode(bad)):
            refuses("a\\x00b|has a NUL", lambda: call(path))
    refuses("has a NUL", lambda: model.export_c(os.path.join(where, "x.h"), "na\0me"))
    for more in ({"csv": bad}, {"tensorboard_log": bad}, {"hidden": "8\0,9"}, {"preset": "a2c\0"}):
        refuses("has a NUL", lambda: PPO("MlpPolicy", Counter(), **dict(SMALL, **more)).learn(16))
    assert os.listdir(where) == []
    model.csv = os.fsencode(os.path.join(where, "c.csv"))
    names = [b"bytes"] + [b"\xff"] * (sys.platform == "linux")  # the second is no text in UTF-8
    for name in names:
        model.learn(16).save(os.path.join(os.fsencode(where), name))
        assert weights(PPO.load(os.path.join(os.fsencode(where), name))) == weights(model)
    there = [b"c.csv", b"c.1.csv"][: len(names)] + [name + b".safetensors" for name in names]
    assert sorted(os.listdir(os.fsencode(where))) == sorted(there)


def a_log_never_replaces_what_is_no_file():
    folder, device = os.path.join(WORK, "data"), os.path.join(WORK, "device")
    os.mkdir(folder)
    os.mkfifo(device)
    for path in (folder, folder + os.sep):
        refuses("data", lambda: PPO("MlpPolicy", Counter(), csv=path, **SMALL).learn(16), IsADirectoryError)
    assert os.path.isdir(folder)
    ppo._keep(device)
    assert not [name for name in os.listdir(WORK) if name.startswith(("data.", "device."))] and os.path.exists(device)


def cases_of_spaces():
    """What an environment sees and does otherwise than an exported policy: observation space, action space, an
    observation by a number, what layout() says of it."""
    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.integers(0, 256, shape, np.uint8)
    see = {
        "numbers": (Box(-1, 1, (2,)), lambda t: rng.normal(size=2), ["row[0 .. 1]: observation: its numbers"]),
        "one": (
            Discrete(4, start=-2),
            lambda t: t % 4 - 2,
            ["row[0 .. 3]: observation: 1 for the choice among 4, else 0, from -2 on"],
        ),
        "picture": (
            Box(0, 255, (5, 4, 3), np.uint8),
            lambda t: draw(5, 4, 3),
            ["row[0 .. 59]: observation: channels x height x width, 3 x 5 x 4, each times 0.003921569"],
        ),
        "parts": (
            Dict(gear=MultiDiscrete([2, 3]), view=Box(0, 255, (5, 4, 3), np.uint8)),
            lambda t: {"gear": np.array([t % 2, t % 3]), "view": draw(5, 4, 3)},
            [
                "row[0 .. 59]: observation['view']: channels x height x width, 3 x 5 x 4, each times 0.003921569",
                "row[60 .. 64]: observation['gear']: for each choice 1 among its options, else 0: [2, 3]",
            ],
        ),
    }
    act = {
        "ranges": (
            Box([-1, 0, -5], [1, 3, 5]),
            "action: low + (answer + 1) / 2 * (high - low), of an answer in -1 .. 1; "
            "low [-1.0, 0.0, -5.0], high [1.0, 3.0, 5.0]",
        ),
        "half": (Box([0, -np.inf], [np.inf, np.inf]), "action: answer, clipped; low [0.0, -inf], high [inf, inf]"),
        "box": (Box(-2, 2, (1, 2)), "action: answer, which is within -2 .. 2"),
        "whole": (Box(0, 10, (2,), np.int32), "action: answer, which is within 0 .. 10, cut to int32"),
        "start": (Discrete(3, start=5), "action: 5 + answer, of choices from 0 to [2]"),
        "several": (MultiDiscrete([2, 3], [4, -1]), "action: [ 4 -1] + answer, of choices from 0 to [1, 2]"),
        "bits": (MultiBinary(3), "action: answer, of choices from 0 to [1, 1, 1]"),
    }
    pairs = [("numbers", name) for name in act] + [(name, "ranges") for name in see] + [("picture", "start")]
    for seen, acted in pairs:
        yield seen, acted, see[seen], act[acted]


def model_of(seen, see, act):
    """A policy for such spaces whose actions vary."""
    more = {"policy": "MlpPolicy"} if seen in ("numbers", "one") else {"policy": "MultiInputPolicy", "conv": "4x2x1"}
    env = Plays(see[0], act[0], see[1])
    return PPO(more.pop("policy"), env, **more, **dict(SMALL, learning_rate=0.05)).learn(64)


def an_exported_policy_is_asked_and_understood():
    """... as one that was loaded without its environment, whose predict() takes and gives the same numbers."""
    path = os.path.join(WORK, "asked.safetensors")
    for seen, acted, see, act in cases_of_spaces():
        model = model_of(seen, see, act)
        model.save(path)
        bare, obs = PPO.load(path), [see[1](t) for t in range(12)]
        many = {k: np.array([o[k] for o in obs]) for k in obs[0]} if isinstance(obs[0], dict) else np.array(obs)
        want = model.predict(many, deterministic=True)[0]
        rows = model.observation_rows(many)
        assert rows.dtype == np.float32 and rows.shape == (12, model._observations.size)
        got = model.actions_of(bare.predict(rows, deterministic=True)[0])
        assert got.dtype == want.dtype and np.array_equal(got, want), (seen, acted)
        one = model.observation_rows(obs[3])
        assert np.array_equal(one, rows[3:4])
        assert np.array_equal(model.actions_of(bare.predict(one[0], deterministic=True)[0])[0], want[3])
        if seen != "numbers":
            refuses("PPO.load(path, env=...) knows the", lambda: bare.predict(obs[0]))
        assert model.layout().splitlines() == see[2] + [act[1]], model.layout()
    model = PPO("MlpPolicy", two_numbers(MultiDiscrete([2, 3])), **SMALL)
    for bad in ([0], [0, 1, 1], [], ["a", "b"], None):
        refuses("not 2 numbers for each action", lambda: model.actions_of(bad))
    for bad in ([0, 3], [-1, 0], [0.5, 0], [math.nan, 0]):
        refuses("of choices from 0 to [1, 2]", lambda: model.actions_of(bad))


def a_recurrent_policy_keeps_a_state():
    model = PPO("MlpPolicy", [CartPole(1, k) for k in range(2)], recurrent=6, sequence_steps=8, **SMALL).learn(100)
    obs = np.array([[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0.1]], np.float32)
    _, first = model.predict(obs)
    assert first.shape == (2, 6) and first.any()
    _, second = model.predict(obs, state=first)
    _, third = model.predict(obs, state=first, episode_start=[False, True])
    assert (second[0] == third[0]).all() and (third[1] == first[1]).all() and (second[1] != third[1]).any()
    evaluate_policy(model, [CartPole(1, 5)], 2)
    refuses("state is of shape (2, 5)|(2, 6)", lambda: model.predict(obs, state=first[:, :5]))
    refuses("state is of shape (1, 6)", lambda: model.predict(obs, state=first[:1]))
    refuses("state is a tuple|(2, 6)", lambda: model.predict(obs, state=(first, first)))
    refuses("episode_start has 3", lambda: model.predict(obs, episode_start=[1, 0, 0]))


def policies_act_in_environments_of_their_sizes_alone():
    model = PPO("MlpPolicy", Counter(), **SMALL)
    several = two_numbers(MultiDiscrete([5] * 40))
    for env, words in (
        (CartPole(1, 0), "sees 2 numbers|has 4"),
        (several, "discrete 2|multi-discrete 5,5"),
        (Vector([two_numbers(Discrete(3))], "NextStep"), "discrete 2|discrete 3"),
        ([two_numbers(Box(-1, 1, (9,)))], "discrete 2|box 9"),
    ):
        refuses(words, lambda: evaluate_policy(model, env, 1))
        refuses(words, lambda: model.set_env(env))
    refuses("multi-discrete 5,5|discrete 2", lambda: evaluate_policy(PPO("MlpPolicy", several, **SMALL), Counter(), 1))
    see = lambda h, w: Plays(Box(0, 1, (h, w, 1)), Discrete(2), lambda t: np.zeros((h, w, 1)))
    model = PPO("CnnPolicy", see(8, 6), conv="4x3x1", **SMALL)
    refuses("picture is (1, 8, 6)|(1, 6, 8)", lambda: evaluate_policy(model, see(6, 8), 1))


def a_model_has_one_owner():
    import copy
    import pickle

    model = PPO("MlpPolicy", Counter(), **SMALL)
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        refuses("cannot be copied|save()", lambda: way(model), TypeError)
    model.learn(32)


class Wrapper:
    def __init__(self, env):
        self.env = self.unwrapped = env

    def __getattr__(self, name):
        return getattr(self.env, name)


def a_training_is_not_disturbed_by_its_callback():
    model = PPO("MlpPolicy", Counter(), **SMALL)
    for words, call in (
        ("learn() while learn() runs", lambda: model.learn(32)),
        ("set_env() while", lambda: model.set_env(Counter())),
        ("evaluate_policy() while", lambda: evaluate_policy(model)),
        ("evaluate_policy() while", lambda: evaluate_policy(model, [Counter(), model.env])),
        ("evaluate_policy() while", lambda: evaluate_policy(model, Wrapper(model.env))),
    ):
        refuses(words, lambda: model.learn(32, callback=lambda *_: call()))
    model.learn(32, callback=lambda *_: evaluate_policy(model, Counter(), 1) and None)
    assert model.num_timesteps == 32


def evaluations_count_whole_episodes_alone():
    model = PPO("MlpPolicy", Counter(), **SMALL)
    # episodes 0, 1, ... have 2, 3, 4, 2 steps: their returns are 1 + 2, 11 + 12 + 13, 21 + .. + 24, 31 + 32
    want = ([3.0, 36.0, 90.0, 63.0], [2, 3, 4, 2])
    for env in (
        Counter(),
        Vector([Counter()], "NextStep"),
        Vector([Counter()], "SameStep"),
        Vector([Counter()], "Disabled"),
    ):
        env = env if isinstance(env, Vector) else env
        assert evaluate_policy(model, env, 4, return_episode_rewards=True) == want, env
    mean, std = evaluate_policy(model, [Counter(), Counter()], 3)  # one plays one episode, the other two
    assert mean == (3 + 3 + 36) / 3 and std > 0
    refuses("not above 50", lambda: evaluate_policy(model, Counter(), 3, reward_threshold=50), AssertionError)
    seen = []
    evaluate_policy(model, Counter(), 1, callback=lambda l, g: seen.append(l["rewards"].tolist()))
    assert seen == [[1], [2]]


def logs_have_the_keys_of_stable_baselines3():
    model = PPO(
        "MlpPolicy",
        Counter(),
        csv=os.path.join(WORK, "log", "progress.csv"),
        tensorboard_log=os.path.join(WORK, "tb"),
        **SMALL,
    )
    model.learn(48)
    rows = open(os.path.join(WORK, "log", "progress.csv")).read().splitlines()
    assert len(rows) == 4 and "rollout/ep_rew_mean" in rows[0] and "train/approx_kl" in rows[0]
    assert os.listdir(os.path.join(WORK, "tb", "PPO_1"))
    # what continues is appended, what begins anew keeps what was there
    column = lambda name: [row.split(",")[rows[0].split(",").index(name)] for row in rows[1:]]
    first = column("time/time_elapsed")
    for _ in range(2):
        model.learn(32, reset_num_timesteps=False)
    rows = open(model.csv).read().splitlines()
    assert column("time/total_timesteps") == ["16", "32", "48", "64", "80", "96", "112"] and model.num_timesteps == 112
    assert column("time/iterations") == list("1234567") and column("time/time_elapsed")[:3] == first
    assert column("train/n_updates") == ["2", "4", "6", "8", "10", "12", "14"]
    assert np.diff(np.array(column("time/time_elapsed"), float)).min() >= 0
    assert len(os.listdir(os.path.join(WORK, "tb"))) == 1 and len(os.listdir(os.path.join(WORK, "tb", "PPO_1"))) == 3
    for count in (2, 3):
        model.learn(16)
        assert len(open(model.csv).read().splitlines()) == 2
        assert len(os.listdir(os.path.join(WORK, "log"))) == count == len(os.listdir(os.path.join(WORK, "tb")))
    assert open(os.path.join(WORK, "log", "progress.1.csv")).read().splitlines() == rows
    model.save(os.path.join(WORK, "logged"))
    again = PPO.load(os.path.join(WORK, "logged"), env=Counter(), csv=model.csv, n_steps=16, batch_size=16)
    again.learn(16, reset_num_timesteps=False)  # there is nothing that it continues
    assert len(os.listdir(os.path.join(WORK, "log"))) == 4


def a_training_that_fails_at_once_counts_for_nothing():
    class Breakable(Counter):
        broken = False

        def step(self, action):
            if self.broken:
                raise KeyError("broken")
            return super().step(action)

    env = Breakable()
    model = PPO("MlpPolicy", env, csv=os.path.join(WORK, "broken", "progress.csv"), **SMALL)
    model.learn(32)
    env.broken = True
    for _ in range(2):
        refuses("broken", lambda: model.learn(32, reset_num_timesteps=False), KeyError)
    env.broken = False
    model.learn(16, reset_num_timesteps=False)
    rows = open(model.csv).read().splitlines()
    assert [row.split(",")[rows[0].split(",").index("time/iterations")] for row in rows[1:]] == ["1", "2", "3"]


def the_line_of_progress_is_printed():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])\n"
        "import python as t\n"
        "t.PPO('MlpPolicy', t.Counter(), verbose=1, **t.SMALL).learn(16 * 40)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, HERE, os.path.join(HERE, "..", "examples", "python")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PPO_LIBRARY=ppo._find()),
    )
    lines = [l for l in done.stderr.splitlines() if "steps" in l and "/s" in l]
    assert len(lines) == 21 and "640/640 steps" in lines[-1] and not done.stdout, done.stderr


def the_library_is_looked_for():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import ppo; ppo._lib()"
    folder = os.path.join(WORK, "alone")
    os.mkdir(folder)
    text = open(os.path.join(HERE, "..", "examples", "python", "ppo.py")).read()
    open(os.path.join(folder, "ppo.py"), "w").write(text)
    without = {k: v for k, v in os.environ.items() if k != "PPO_LIBRARY"}

    def says(**env):
        command = [sys.executable, "-c", code, folder]
        return subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=dict(without, **env)).stderr

    assert "make shared" in says()
    os.symlink(os.path.abspath(ppo._find()), os.path.join(folder, ppo._NAME))
    assert says() == ""
    assert "not the library" in says(PPO_LIBRARY=ctypes.util.find_library("m") or "libm.so.6")
    open(os.path.join(folder, "ppo.py"), "w").write(text.replace('VERSION = "0.3"', 'VERSION = "0.2"'))
    assert "is version 0.3" in says()
    os.remove(os.path.join(folder, ppo._NAME))
    open(os.path.join(folder, "ppo.py"), "w").write(text)
    open(os.path.join(folder, "ppo.h"), "w").write("")
    open(os.path.join(folder, "ppo.c"), "w").write("#error of ppo.c\n")
    said = says()
    assert "compiles ppo.h once" in said and "does not compile" in said and "of ppo.c" in said
    assert "of ppo.c" in says(CC="env LC_ALL=C cc")
    assert "no C compiler" in says(CC="no-such-compiler")
    assert set(os.listdir(folder)) - {"__pycache__"} == {"ppo.c", "ppo.h", "ppo.py"}


ALONE = [
    each_way_to_begin_an_episode_is_told_as_it_is,
    the_ways_train_to_the_same_bits,
    cartpole_in_python_trains_to_the_bits_of_build_train,
    actions_are_those_of_the_space,
    actions_are_within_bounds_that_no_float32_is,
    ranges_of_their_own_are_used_to_both_ends,
    observations_are_numbers,
    what_is_no_choice_is_refused,
    sizes_that_a_policy_cannot_have_are_named,
    pictures_and_numbers_train,
    illegal_actions_are_never_taken,
    masks_may_be_a_method,
    what_an_environment_does_not_keep_to_is_named,
    what_an_environment_raises_is_passed_on,
    ctrl_c_ends_a_training_which_can_go_on,
    callbacks_see_and_stop,
    callbacks_know_the_environments_and_the_end,
    checkpoints_are_saved_on_the_way,
    callbacks_record_figures,
    settings_have_both_names,
    environments_are_made_by_classes_and_functions,
    what_cannot_be_is_refused,
    schedules_are_functions_of_what_remains,
    what_a_schedule_gives_is_a_number_each_time,
    what_was_a_function_is_given_anew_to_a_policy_that_was_loaded,
    a_file_of_stable_baselines3_is_told_how_to_convert,
    each_type_of_a_safetensors_file_is_read_or_named,
    damaged_files_are_refused_by_one_sentence,
    action_spaces_are_sizes_and_bounds,
    settings_that_are_converted_are_those_that_ppo_h_takes,
    what_is_converted_goes_where_it_should,
    a_seed_repeats_a_training,
    kernels_are_chosen_by_name,
    a_policy_is_saved_and_loaded,
    a_scale_of_bytes_is_kept,
    a_policy_is_exported,
    an_exported_policy_is_asked_and_understood,
    names_of_files_are_taken_whole_or_refused,
    a_log_never_replaces_what_is_no_file,
    a_recurrent_policy_keeps_a_state,
    policies_act_in_environments_of_their_sizes_alone,
    a_model_has_one_owner,
    a_training_is_not_disturbed_by_its_callback,
    evaluations_count_whole_episodes_alone,
    logs_have_the_keys_of_stable_baselines3,
    the_line_of_progress_is_printed,
    the_library_is_looked_for,
]


class Skip(Exception):
    """A test cannot run here."""


def clean():
    subprocess.run(["rm", "-rf", WORK])


def run(tests):
    failures = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print("ok %d - %s" % (number, test.__name__), flush=True)
        except Skip as reason:
            print("ok %d # SKIP %s: %s" % (number, test.__name__, reason), flush=True)
        except BaseException:
            failures += 1
            print("not ok %d - %s" % (number, test.__name__))
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "), flush=True)
    print("1..%d" % len(tests))
    return failures


if __name__ == "__main__":
    failed = run(ALONE)
    clean()
    sys.exit(failed > 0)
