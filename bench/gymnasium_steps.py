"""Gymnasium's stepping of an environment with random actions, beside mujoco.c.

gymnasium_steps.py NAME STEPS prints the versions and the steps per second of the processor.
"""
import sys
import time

import gymnasium
import mujoco

mujoco.set_mju_user_warning(lambda text: None)   # which would write to a file
env = gymnasium.make(sys.argv[1])
steps = int(sys.argv[2])
actions = [env.action_space.sample() for _ in range(1000)]
env.reset(seed=1)
start = time.process_time()
for i in range(steps):
    _, _, terminated, truncated, _ = env.step(actions[i % 1000])
    if terminated or truncated:
        env.reset()
print("gymnasium", gymnasium.__version__, "mujoco", mujoco.__version__)
print(steps / (time.process_time() - start))
