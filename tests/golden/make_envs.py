"""Writes envs.h: episodes of Gymnasium's classic control tasks, to hold examples/envs/ against.

    pip install numpy==2.4.6 gymnasium==1.4.0
    python make_envs.py

CartPole has a script of its own, make_cartpole.py.

How to compare: take the recorded state every g_envs_every steps, and run free from there to the next one. A
whole episode of Acrobot cannot be run free, because its motion multiplies any rounding difference.
"""
import math

import gymnasium
import numpy as np

from golden import Header

EVERY = 5   # steps from one recorded state to the next


def episode(env, start, act, steps):
    """start: a seed for reset(), or the state to start from. One row per step: (state, action, obs, reward,
    terminated, truncated), where the state is the one before the step."""
    env.reset(seed=start if isinstance(start, int) else 0)
    task, rows, over = env.unwrapped, [], False
    if not isinstance(start, int):
        task.state = np.array(start, np.float32 if "Continuous" in env.spec.id else np.float64)
    while not over and len(rows) < steps:
        state = np.array(task.state, np.float64)
        action = act(state)
        if isinstance(env.action_space, gymnasium.spaces.Box):
            action = np.array([action], np.float32)   # its type makes numpy compute in float32
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, action, obs, reward, terminated, truncated))
        over = terminated or truncated
    return rows


def constant(action):
    return lambda state: action


def pump(state):
    """Mountain car: pushes the way it rolls, which takes it up the hill."""
    return 2 if state[1] >= 0 else 0


def pump_gently(state):
    return 0.9 if state[1] >= 0 else -0.9


def kick(state):
    """Acrobot: the torque that adds energy, for the motor's power is torque times speed2."""
    return 2 if state[3] >= 0 else 0


def swing_up(state):
    """Pendulum: brings the energy to that of standing upright, and balances once it is there."""
    angle, speed = (state[0] + math.pi) % (2 * math.pi) - math.pi, state[1]
    if abs(angle) < 0.3:
        return round(float(np.clip(-12 * angle - 3 * speed, -2, 2)), 3)
    missing = 5 - (speed ** 2 / 6 + 5 * math.cos(angle))   # J
    return math.copysign(2.0, speed * missing)


def add(h, name, env_id, title, plays):
    env = gymnasium.make(env_id, disable_env_checker=True)
    episodes = [episode(env, *play) for play in plays]
    rows = [row for rows in episodes for row in rows]
    space, discrete = env.action_space, isinstance(env.action_space, gymnasium.spaces.Discrete)
    sizes = {"episodes": len(episodes), "steps": len(rows), "obs_size": env.observation_space.shape[0],
             "state_size": len(rows[0][0]), "action_size": int(space.n) if discrete else space.shape[0],
             "max_steps": env.spec.max_episode_steps}
    h.case("%s. Episodes: %s" % (env_id, title), **{name + "_" + key: value for key, value in sizes.items()})
    if not discrete:
        h.floats(name, low=space.low, high=space.high)
    h.array("int", name + "_length", [len(rows) for rows in episodes])
    h.array("double", name + "_state", [row[0] for rows in episodes for row in rows[::EVERY]])
    h.array("unsigned char" if discrete else "float", name + "_action", [row[1] for row in rows])
    h.floats(name, obs=[row[2] for row in rows], reward=[row[3] for row in rows])
    h.array("unsigned char", name + "_terminated", [row[4] for row in rows])
    return episodes


def acrobot(h, rng):
    plays = [(20, lambda s: int(rng.integers(3)), 150), (21, kick, 500), (22, kick, 500),
             (23, constant(2), 80),
             ((0.1, 0.2, 12.0, 27.0), constant(2), 20), ((-0.1, -0.2, -12.0, -27.0), constant(0), 20)]
    played = add(h, "acrobot", "Acrobot-v1", "0: random actions; 1 and 2: kicked up to the goal; 3: always "
                 "torque 1; 4 and 5: set to speeds near their limits.", plays)
    assert all(rows[-1][4] and rows[-1][3] == 0 for rows in played[1:3])
    speeds = np.array([row[2][4:] for rows in played[4:] for row in rows])
    for limit in (speeds[:, 0].max(), -speeds[:, 0].min()):
        assert limit == np.float32(4 * np.pi)
    for limit in (speeds[:, 1].max(), -speeds[:, 1].min()):
        assert limit == np.float32(9 * np.pi)


def mountaincar(h, rng):
    plays = [(30, lambda s: int(rng.integers(3)), 200), (31, pump, 200), (32, pump, 200),
             ((-1.1, -0.06), constant(0), 30), ((-0.8, 0.069), constant(2), 30),
             ((0.3, -0.069), constant(0), 30), ((0.56, -0.01), constant(0), 10),
             ((0.58, 0.05), constant(2), 10)]
    played = add(h, "mountaincar", "MountainCar-v0", "0: random actions until the time limit; 1 and 2: "
                 "rocked up to the flag; 3: into the wall; 4 and 5: at the speed limits; 6: back over the "
                 "flag, which does not count; 7: over the flag and against the right end.", plays)
    check_car(played, 0.5)
    assert len(played[0]) == 200 and played[0][-1][5] and not played[0][-1][4]


def mountaincar_continuous(h, rng):
    plays = [(40, lambda s: round(rng.uniform(-1.5, 1.5), 2), 100), (41, pump_gently, 999),
             (42, constant(0.0), 40), ((-1.1, -0.06), constant(-0.7), 30), ((-0.8, 0.069), constant(3.0), 30),
             ((0.3, -0.069), constant(-3.0), 30), ((0.56, -0.01), constant(-0.5), 10),
             ((0.58, 0.05), constant(0.5), 10)]
    played = add(h, "mountaincar_continuous", "MountainCarContinuous-v0", "0: random actions, also outside "
                 "the box; 1: rocked up to the flag; 2: no force; 3 to 7: as in MountainCar-v0.", plays)
    check_car(played, 0.45)
    assert played[1][-1][3] > 99


def check_car(played, flag):
    """That the episodes meet what they were made for."""
    assert played[1][-1][4]
    assert any(row[2][0] == np.float32(-1.2) and row[2][1] == 0 for row in played[3])
    assert any(row[2][1] == np.float32(0.07) for row in played[4])
    assert any(row[2][1] == np.float32(-0.07) for row in played[5])
    assert any(row[2][0] > flag and not row[4] for row in played[6])
    assert len(played[7]) == 1 and played[7][0][4] and played[7][0][2][0] == np.float32(0.6)


def pendulum(h, rng):
    plays = [(50, lambda s: round(rng.uniform(-3, 3), 2), 100), (51, swing_up, 200), (52, constant(2.0), 60),
             ((20.0, 7.9), constant(2.5), 40), ((-20.0, -7.9), constant(-2.5), 40)]
    played = add(h, "pendulum", "Pendulum-v1", "0: random torques, also outside the box; 1: swung up and "
                 "balanced, until the time limit; 2: always torque 2; 3 and 4: many turns from upright, at "
                 "the speed limits.", plays)
    assert played[1][-1][5] and played[1][-1][2][0] > 0.999
    assert any(row[2][2] == 8 for row in played[3]) and any(row[2][2] == -8 for row in played[4])


def main():
    h = Header("make_envs.py", "Arrays are flat; the comment after the brace gives the shape.",
               ["gymnasium", "numpy"])
    h.case("Each task: episodes one after another in the arrays of steps. _length: steps of each; _state: "
           "the state before every g_envs_every-th step of an episode, from its first on; _obs, _reward, "
           "_terminated: what the step led to. _action_size is the number of actions, or that of numbers in "
           "an action.", envs_every=EVERY)
    for seed, task in enumerate([acrobot, mountaincar, mountaincar_continuous, pendulum]):
        task(h, np.random.default_rng(seed))
    h.save("envs.h")


if __name__ == "__main__":
    main()
