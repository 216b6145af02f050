"""Writes lunarlander.h: whole episodes of Gymnasium's LunarLander-v3, for examples/envs/lunarlander.hpp.

    pip install numpy==2.4.6 gymnasium==1.4.0 Box2D==2.3.10
    python make_lunarlander.py

All that chance decides is drawn here, rounded so that it takes little room, and recorded along with them.

How to compare: as free runs. The releases 2.3 and 2.4 of Box2D differ by rounding and by the order in which
they meet the contacts. In the air that leads to some 1e-5: the first step, in which the legs snap into their
limits, is a jerk. Contact amplifies it; in about one of ten landings a leg then loses the ground a step
earlier or later, and the episode takes another turn. The seeds below are those of episodes which keep their
course even if the dispersion is disturbed by 1e-4 in every step.
"""
import gymnasium
import numpy as np
from gymnasium.envs.box2d.lunar_lander import heuristic

from golden import Header

STATISTICS = 4000   # episodes


class Draws:
    """Stands in for numpy's generator; keeps what it hands out."""

    def __init__(self, seed):
        self.rng, self.drawn = np.random.default_rng(seed), []

    def uniform(self, low, high, size=None):
        x = np.round(self.rng.uniform(low, high, size), 3)
        self.drawn += np.ravel(x).tolist()
        return x


def constantly(*action):
    return lambda env, obs, t: np.array(action, np.float32) if env.unwrapped.continuous else action[0]


def landing(env, obs, t):
    return np.round(heuristic(env, obs), 3)


def sideways(env, obs, t):
    """Leans to the right and holds its height until it leaves the view."""
    turn = (-0.6 - obs[4]) * 0.5 - obs[5]
    return 2 if obs[3] < 0 and abs(turn) < 0.2 else 3 if turn < -0.05 else 1 if turn > 0.05 else 2


def all_throttles(env, obs, t):
    """Continuous actions of every kind, those between on and off included."""
    step = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]
    return np.array([step[t * 5 % 9], step[t * 2 % 9]], np.float32)


EPISODES = [   # continuous, seed, who acts, how it ends
    (False, 12, constantly(0), "crash"), (False, 19, constantly(1), "crash"),
    (False, 12, constantly(2), "left"), (False, 1, constantly(3), "crash"), (False, 11, sideways, "left"),
    (False, 50, landing, "rest"), (False, 51, landing, "rest"),
    (True, 21, all_throttles, "crash"), (True, 20, landing, "rest"),
]


def start(env, seed):
    draws = Draws(seed)
    env.unwrapped._np_random, env.unwrapped._np_random_seed = draws, seed
    return draws, env.reset()[0]


def play(env, seed, act, ending):
    """One episode: what was drawn, the heights of the terrain's corners, the first observation, and for each
    step (action, obs, reward, terminated)."""
    draws, obs = start(env, seed)
    edges = [f.shape.vertices for f in env.unwrapped.moon.fixtures[1:]]   # the first is the floor
    terrain = [edges[0][0][1]] + [right[1] for _, right in edges]
    first, rows, over = obs, [], False
    while not over:
        action = act(env, obs, len(rows))
        action = np.asarray(action, np.float32) if env.unwrapped.continuous else int(action)
        obs, reward, over, truncated, _ = env.step(action)
        assert not truncated
        rows.append((action, obs, reward, over))
    found = "rest" if reward == 100 else "left" if abs(obs[0]) >= 1 else "crash"
    assert found == ending, (seed, found)
    return draws.drawn, terrain, first, rows


def statistics(env):
    """Of landings: mean and deviation of the return, the same of the length, the share that ends at rest."""
    returns, lengths, rest = [], [], 0
    for seed in range(STATISTICS):
        obs, total, t, over = start(env, 10 ** 6 + seed)[1], 0, 0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(heuristic(env, obs))
            total, t, over = total + reward, t + 1, terminated or truncated
        returns.append(total)
        lengths.append(t)
        rest += terminated and reward == 100
    return [np.mean(returns), np.std(returns), np.mean(lengths), np.std(lengths), rest / STATISTICS]


def main():
    envs = [gymnasium.make("LunarLander-v3", continuous=c) for c in (False, True)]
    played = [play(envs[continuous], seed, act, ending) for continuous, seed, act, ending in EPISODES]
    lengths = [len(rows) for _, _, _, rows in played]
    steps = [row for _, _, _, rows in played for row in rows]

    h = Header("make_lunarlander.py", "Arrays are flat; the comment after the brace gives the shape.",
               ["gymnasium", "numpy", "box2d"])
    h.case("Episodes, one after another in the arrays of steps. 0: free fall and crash; 1 to 3: left, main "
           "and right engine all the time; 4: flies out of the view; 5 and 6: landings by the heuristic; 7 "
           "and 8 are continuous: actions of every kind, and a landing. _start: rough heights (12) and force "
           "(2); _terrain: the heights that its corners get; _first: the observation after reset. "
           "_dispersion: that of reset, then of each step, so one row per episode more than steps. _action: "
           "of discrete episodes; _box: of continuous ones, the main engine and the side engines. "
           "Observations and rewards are rounded to 6 and 4 digits after the point.",
           lunarlander_episodes=len(played), lunarlander_steps=len(steps))
    h.array("int", "lunarlander_length", lengths)
    h.array("unsigned char", "lunarlander_continuous", [c for c, _, _, _ in EPISODES])
    h.array("double", "lunarlander_start", [drawn[:14] for drawn, _, _, _ in played])
    h.array("double", "lunarlander_dispersion",
            np.reshape([x for drawn, _, _, _ in played for x in drawn[14:]], (-1, 2)))
    h.floats("lunarlander", terrain=[terrain for _, terrain, _, _ in played],
             first=np.round([first for _, _, first, _ in played], 6))
    h.array("unsigned char", "lunarlander_action", [a if isinstance(a, int) else 0 for a, _, _, _ in steps])
    h.floats("lunarlander", box=[[0, 0] if isinstance(a, int) else np.round(a, 6) for a, _, _, _ in steps],
             obs=np.round([obs for _, obs, _, _ in steps], 6),
             reward=np.round([float(reward) for _, _, reward, _ in steps], 4))
    h.array("unsigned char", "lunarlander_terminated", [over for _, _, _, over in steps])
    h.case("Landings by the heuristic over %d episodes each, discrete and continuous: mean and standard "
           "deviation of the return, the same of the length, and the share that ends at rest." % STATISTICS,
           lunarlander_landings=STATISTICS)
    h.floats("lunarlander", landing=[statistics(env) for env in envs])
    h.save("lunarlander.h")
    print("lengths", lengths)


if __name__ == "__main__":
    main()
