"""Writes cartpole.h: whole episodes of Gymnasium's CartPole-v1, to hold examples/envs/cartpole.h against.

    pip install numpy==2.4.6 gymnasium==1.4.0
    python make_cartpole.py

How to compare: step by step from the recorded observation (the step is then exact to float rounding) for
every episode; as a free run only where the episode is short. The pole is unstable and multiplies any rounding
difference: with the recorded actions, a free run in float32 is off by 1e-4 after some 140 steps, and even
float64 with its operations in another order is off by 1e-3 after 500.
"""
import gymnasium
import numpy as np

from golden import Header

GAIN = np.array([0.1, 0.5, 10.0, 3.0])   # pushing right when GAIN . (state - goal) > 0 balances the pole


def play(env, seed, act):
    """One episode: the state after reset; for each step (action, obs, reward, terminated, truncated)."""
    env.reset(seed=seed)
    start, rows, over = env.unwrapped.state.copy(), [], False
    while not over:
        action = int(act(env.unwrapped.state))
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((action, obs, reward, terminated, truncated))
        over = terminated or truncated
    return start, rows


def main():
    env = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(1)
    at_random, goal = (lambda s: rng.integers(2)), np.array([6.0, 0, 0, 0])
    episodes = [play(env, 10, at_random), play(env, 11, at_random), play(env, 12, at_random),
                play(env, 13, lambda s: 0), play(env, 14, lambda s: 1),
                play(env, 15, lambda s: GAIN @ (s - goal) > 0), play(env, 16, lambda s: GAIN @ s > 0)]
    lengths = [len(rows) for _, rows in episodes]
    action, obs, reward, terminated, truncated = zip(*(row for _, rows in episodes for row in rows))
    last = [obs[i - 1] for i in np.cumsum(lengths)]
    assert all(abs(o[2]) > 0.2094 for o in last[:5])                # the pole fell
    assert abs(last[5][0]) > 2.4 and abs(last[5][2]) < 0.2          # the cart left, the pole stood
    assert lengths[6] == 500 and truncated[-1] and not terminated[-1] and not any(truncated[:-1])

    h = Header("make_cartpole.py", "Arrays are flat; the comment after the brace gives the shape.",
               ["gymnasium", "numpy"])
    h.case("Episodes, one after another in the arrays of steps. 0 to 2: random actions, the pole falls; 3: "
           "always left; 4: always right; 5: balanced but driven right until the cart leaves the track; 6: "
           "balanced by g_cartpole_gain (push right when the dot product with the state is positive) up to "
           "the time limit of 500. _start: the state after reset (x, x_dot, theta, theta_dot), its float32 "
           "is the first observation; _obs: the observation after each action. Free runs diverge "
           "exponentially (see make_cartpole.py): compare step by step from the recorded observation.",
           cartpole_episodes=len(episodes), cartpole_steps=sum(lengths))
    h.array("int", "cartpole_length", lengths)
    h.array("double", "cartpole_start", [start for start, _ in episodes])
    h.floats("cartpole", gain=GAIN)
    h.array("unsigned char", "cartpole_action", action)
    h.array("unsigned char", "cartpole_terminated", terminated)
    h.array("unsigned char", "cartpole_truncated", truncated)
    h.floats("cartpole", reward=reward, obs=obs)
    h.save("cartpole.h")
    print("lengths", lengths)


if __name__ == "__main__":
    main()
