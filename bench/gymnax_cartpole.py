"""gymnax's CartPole-v1 by JAX on one core, with the work of collecting.c: 1,024 environments, rollouts of
64 steps.

Prints the versions, and then the steps per second of the processor's time, each with its peak memory in
MiB: with two 64-64 tanh networks, of which one acts and one values, sampled actions, their
log-probabilities and values kept; and with random actions, nothing kept. The best of several rounds of a
compiled lax.scan over vmap; compiling is not counted.
"""
import os
import time

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX counts the cores

from importlib.metadata import version

import gymnax
import jax
import jax.numpy as jnp

from measure import measured

STEPS, ENVS, ROUNDS = 64, 1024, 20

env, params = gymnax.make("CartPole-v1")
step_all = jax.vmap(env.step, in_axes=(0, 0, 0, None))
reset_all = jax.vmap(env.reset, in_axes=(0, None))


def network(key, outputs):
    sizes = [4, 64, 64, outputs]
    keys = jax.random.split(key, 3)
    return [(jax.nn.initializers.orthogonal()(keys[i], (sizes[i], sizes[i + 1])), jnp.zeros(sizes[i + 1]))
            for i in range(3)]


def forward(layers, x):
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    return x @ layers[-1][0] + layers[-1][1]


def with_policy(carry, _, actor, critic):
    key, obs, state = carry
    key, act_key, step_key = jax.random.split(key, 3)
    logits = forward(actor, obs)
    action = jax.random.categorical(act_key, logits)
    logp = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
    value = forward(critic, obs)[:, 0]
    keys = jax.random.split(step_key, ENVS)
    after, state, reward, terminated, truncated, info = step_all(keys, state, action, params)
    next_value = forward(critic, info["final_observation"])[:, 0] * truncated  # what a cut episode is worth
    return (key, after, state), (obs, action, logp, value, reward, terminated, truncated, next_value)


def at_random(carry, _):
    key, obs, state = carry
    key, act_key, step_key = jax.random.split(key, 3)
    action = jax.random.randint(act_key, (ENVS,), 0, 2)
    obs, state, *_ = step_all(jax.random.split(step_key, ENVS), state, action, params)
    return (key, obs, state), None


def speed(step, *networks):
    rollout = jax.jit(lambda carry: jax.lax.scan(lambda c, x: step(c, x, *networks), carry, None, STEPS))
    key = jax.random.PRNGKey(1)
    carry = (key, *reset_all(jax.random.split(key, ENVS), params))
    best = 0
    for _ in range(ROUNDS + 1):
        began = time.process_time()
        carry, kept = jax.block_until_ready(rollout(carry))
        best = max(best, STEPS * ENVS / (time.process_time() - began))
    return best


print("gymnax", version("gymnax"), "jax", version("jax"))
actor, critic = (network(jax.random.PRNGKey(seed), outputs) for seed, outputs in ((2, 2), (3, 1)))
measured(speed, with_policy, actor, critic)
measured(speed, at_random)
