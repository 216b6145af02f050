"""Makes mujoco.h: episodes of Gymnasium's MuJoCo environments, for examples/envs/mujoco.h.

    pip install numpy==2.4.6 mujoco==4.0.0 gymnasium[mujoco]==1.4.0
    python make_mujoco.py

From a start that is recorded, with actions by a formula, for a number of steps whatever terminates. An observation
is recorded at the start and after every tenth step, reward and end of all steps.

How to compare: as free runs. With the same version of MuJoCo they agree to rounding, which contact amplifies. The
starts are such that a disturbance of 1e-13 grows to less than 1e-7; from most starts, HalfCheetah's exceeds 1e-4.
"""
import warnings

import gymnasium
import mujoco
import numpy as np

from golden import Header

NAMES = ["HalfCheetah", "Hopper", "InvertedDoublePendulum", "InvertedPendulum", "Reacher", "Swimmer", "Walker2d",
         "Ant"]
STEPS, EVERY = 50, 10
SEEDS = {"HalfCheetah": 43}   # of the starts; 1 otherwise


def action(env, t):
    """Fractions of small integers, computed in float: the same numbers in C. Some are beyond the largest: MuJoCo
    clips the forces, and the reward counts the whole effort."""
    high = env.action_space.high
    j = np.arange(len(high))
    return high * (((7 * t + 5 * j) % 11 - 5).astype(np.float32) / np.float32(4))


def play(env, seed, disturb=0.0):
    """Start: positions and velocities; observations of the start and every tenth step; rewards; ends."""
    first, _ = env.reset(seed=seed)
    data = env.unwrapped.data
    qpos, qvel = data.qpos.copy(), data.qvel.copy()
    if disturb:
        env.unwrapped.set_state(qpos + disturb, qvel)
    obs, rewards, ends = [first], [], []
    for t in range(STEPS):
        seen, reward, terminated, _, _ = env.unwrapped.step(action(env, t))
        rewards.append(reward)
        ends.append(terminated)
        if (t + 1) % EVERY == 0:
            obs.append(seen)
    return np.concatenate([qpos, qvel]), obs, rewards, ends


def main():
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda text: None)   # which would write to a file
    h = Header("make_mujoco.py", "Arrays are flat; the comment after the brace gives the shape.",
               ["gymnasium", "mujoco", "numpy"])
    h.case("One episode of each environment. Action j of step t is ((7 t + 5 j) %% 11 - 5) / 4 of the largest, in "
           "float. start: positions and velocities, the same for both versions. obs: of the start and after every %d "
           "steps. Reward and end (terminated): of every step; the robot moves on after an end." % EVERY,
           mujoco_steps=STEPS, mujoco_every=EVERY)
    for name in NAMES:
        for version in (4, 5):
            env = gymnasium.make("%s-v%d" % (name, version))
            seed = SEEDS.get(name, 1)
            start, obs, rewards, ends = play(env, seed)
            drift = np.max(np.abs(np.array(obs) - np.array(play(env, seed, 1e-13)[1])))
            assert drift < 1e-7, (env.spec.id, drift)
            label = "mujoco_%s_v%d" % (name, version)
            if version == 4:
                h.array("double", "mujoco_%s_start" % name, start)
            h.floats(label, obs=obs, reward=rewards)
            h.array("unsigned char", label + "_end", ends)
    h.save("mujoco.h")


if __name__ == "__main__":
    main()
