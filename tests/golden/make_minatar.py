"""Writes minatar.h: episodes of MinAtar's five games, played well enough to see them become harder.

    pip install numpy minatar
    python make_minatar.py

The games draw from the random numbers of ppo.h (Philox 4x32-10), so that the C versions see the same ones. What a player did
is written in full; what the package answered as a running hash of pictures, rewards and ends.
"""
import copy
import importlib
import importlib.util
import os
import sys
import types

import numpy as np

from golden import Header

SEED, PURPOSE = 7, 1024  # ppo_rng_stream(7, PPO_STREAM_USER, game)
EVERY = 20               # steps between two hashes


class Philox:
    """ppo_rng, with the calls of numpy's RandomState that the games make."""

    def __init__(self, index):
        self.counter, self.block = [0, 0, index, PURPOSE], []

    def u32(self):
        if not self.block:
            x, k = list(self.counter), [SEED, 0]
            for _ in range(10):
                p0, p1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
                x = [(p1 >> 32) ^ x[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ x[3] ^ k[1], p0 & 0xFFFFFFFF]
                k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
            self.block = x
            self.counter[0] += 1
        return self.block.pop(0)

    def rand(self, n=None):
        return (self.u32() >> 8) / 2 ** 24 if n is None else np.array([self.rand() for _ in range(n)])

    def randint(self, low, high=None, size=None):
        if size is not None:
            return np.array([self.randint(low, high) for _ in range(size)])
        low, high = (0, low) if high is None else (low, high)
        n = high - low
        while n > 1:
            product = self.u32() * n
            if product & 0xFFFFFFFF >= 2 ** 32 % n:
                return low + (product >> 32)
        return low


def package():
    """The package's games and its sticky actions, without what it needs to show them."""
    folder = importlib.util.find_spec("minatar").submodule_search_locations[0]
    for name in ("minatar", "minatar.environments"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [os.path.join(folder, *name.split(".")[1:])]
    return importlib.import_module("minatar.environment").Environment


def worth(game):
    """What a player looks for beside rewards."""
    if hasattr(game, "diver_count"):
        near = min((abs(d[0] - game.sub_x) + abs(d[1] - game.sub_y) for d in game.divers), default=9)
        return 0.5 * game.diver_count - 0.02 * near - 0.01 * (game.sub_y == 0)
    return 0


def plan(env, options, rng, depth):
    """The first action of the best of some random futures, which are known."""
    best, choice = -np.inf, 0
    for action in options:
        for _ in range(2):
            future, value, weight = copy.deepcopy(env), 0, 1
            for t in range(depth):
                reward, done = future.act(action if t == 0 else options[rng.integers(len(options))])
                value += weight * reward
                weight *= 0.97
                if done:
                    value -= 10 * weight
                    break
            value += worth(future.env) + 1e-3 * rng.random()
            if value > best:
                best, choice = value, action
    return choice


def landing(env):
    """Where the ball will come down if the paddle stays."""
    future = copy.deepcopy(env)
    future.sticky_action_prob = 0
    for _ in range(20):
        if future.act(0)[1]:
            break
        if future.env.ball_y == 8:
            break
    return future.env.ball_x


def player(name, env, options, rng):
    game = env.env
    if rng.random() < 0.02:
        return options[rng.integers(len(options))]
    if name == "breakout":
        x = landing(env)
        return 1 if x < game.pos else 3 if x > game.pos else 0
    if name == "freeway":
        return 2 if rng.random() < 0.9 else 4
    if name == "seaquest" and game.diver_count > 0 and (game.oxygen < 40 or game.diver_count == 6):
        return 2
    return plan(env, options, rng, 12)


def mix(hash, number):
    return (hash ^ number) * 16777619 & 0xFFFFFFFF


def play(header, Environment, index, name, steps):
    rng, env = np.random.default_rng(index), Environment(name)
    env.random = env.env.random = Philox(index)
    options = env.minimal_action_set()
    env.reset()
    actions, hashes, hash, rewards, ends, hardest = "", [], 2166136261, 0, 0, 0
    for t in range(steps):
        action = player(name, env, options, rng)
        actions += str(options.index(action))
        reward, done = env.act(action)
        hardest = max(hardest, env.env.difficulty_ramp() or 0)
        rewards, ends = rewards + reward, ends + done
        hash = mix(mix(hash, int(reward)), int(done))
        if done:
            env.reset()
            env.last_action = 0  # the package keeps it
        for pixel in np.flatnonzero(env.state().transpose(2, 0, 1)):
            hash = mix(hash, int(pixel))
        if t % EVERY == EVERY - 1:
            hashes.append(hash)
    header.case("%s: %d steps, %d episodes ended, rewards %d, harder %d times at most" %
                (name, steps, ends, rewards, hardest))
    print(header.lines[-1])
    header.lines.append('static const char g_minatar_%s_actions[] =\n%s;' % (
        name, "\n".join('    "%s"' % actions[i:i + 100] for i in range(0, steps, 100))))
    header.array("unsigned int", "minatar_" + name, np.array(hashes, np.uint32))


Environment = package()
header = Header("make_minatar.py", "Hashes are those of every %d steps." % EVERY, ["numpy", "minatar"])
for number, (game, count) in enumerate({"breakout": 1600, "asterix": 2400, "freeway": 3000, "seaquest": 2600,
                                        "space_invaders": 1600}.items()):
    play(header, Environment, number, game, count)
header.save("minatar.h")
