"""convert_compare.py FOLDER - does a policy that examples/python/convert.py brought into ppo.h answer as it did before?

Stable-Baselines3 trains for 5,000 steps on CartPole and Pendulum, and less on small environments of the other action
spaces; of each policy, and of PyTorch's networks, 10,000 observations are shown to the original and to ppo.h.
Probabilities, standard deviations, values and actions agree. What cannot be converted is refused by a sentence. FOLDER
has the program that tests/convert.c is. Reports in TAP.
"""
import io
import os
import pickle
import subprocess
import sys
import zipfile

import gymnasium
import numpy
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

ROWS, TOLERANCE = 10000, 1e-5
folder = sys.argv[1]
count = failed = 0
torch.set_num_threads(1)


def report(name, problems, note=""):
    global count, failed
    count += 1
    failed += bool(problems)
    print(f"{'not ok' if problems else 'ok'} {count} - {name}{note}", flush=True)
    for problem in problems[:5]:
        print(f"# {problem}")


def at(name):
    return os.path.join(folder, name)


def convert(source, *flags):
    """Exit status, and what was said."""
    command = [sys.executable, "examples/python/convert.py", source, "-o", at("policy.safetensors"), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def answers(observations, outputs, numbers):
    """What ppo.h makes of them: logits or means, log_std, values, actions."""
    numpy.ascontiguousarray(observations, "<f4").tofile(at("observations"))
    subprocess.run([at("convert"), at("policy.safetensors"), at("observations"), at("answers")], check=True)
    parts = numpy.split(numpy.fromfile(at("answers"), "<f4"), numpy.cumsum([ROWS * outputs, ROWS * outputs, ROWS]))
    return [part.reshape(ROWS, -1) for part in parts]


def compare(problems, what, got, want):
    scale = max(numpy.abs(want).max(), 1e-30)
    off = numpy.abs(got - want).max() / scale
    if got.shape != want.shape or not off <= TOLERANCE:
        problems.append(f"{what}: {got.shape} and {want.shape}, off by {off:.2g}")


class Noise(gymnasium.Env):
    """Random observations; the reward is the first number's, for the first action."""

    def __init__(self, actions, size=5):
        self.observation_space, self.action_space = spaces.Box(-9, 9, (size,), numpy.float32), actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.normal(2, 3, self.observation_space.shape).astype(numpy.float32), {}

    def step(self, action):
        observation, _ = self.reset()
        reward = float(observation[0] * numpy.ravel(action)[0])
        return observation, reward, bool(self.np_random.random() < 0.1), False, {}


def probabilities(logits, sizes):
    heads = numpy.split(numpy.float64(logits), numpy.cumsum(sizes)[:-1], axis=1)
    heads = [numpy.exp(head - head.max(1, keepdims=True)) for head in heads]
    return numpy.hstack([head / head.sum(1, keepdims=True) for head in heads])


def check_sb3(name, algorithm, env, steps, normalized=False, flags=(), trains=None, **settings):
    problems = []
    venv = DummyVecEnv([env])
    if normalized:
        venv = VecNormalize(venv, clip_obs=3.0)
    model = algorithm("MlpPolicy", venv, device="cpu", seed=1, **settings)
    model.learn(steps)
    with torch.no_grad():  # larger steps than those of a short training, so that a wrong weight shows
        for key, parameter in model.policy.named_parameters():
            if key != "log_std":
                parameter += 0.1 * torch.randn_like(parameter)
    model.save(at("model.zip"))
    flags = list(flags)
    if normalized:
        venv.save(at("normalize.pkl"))
        flags += ["--normalize", at("normalize.pkl")]
    status, said = convert(at("model.zip"), *flags)
    if status:
        report(name, [said])
        return
    rng = numpy.random.default_rng(1)
    shape = model.observation_space.shape
    observations = rng.normal(0.5, 2, (ROWS,) + shape).astype(numpy.float32)
    seen = numpy.float32(venv.normalize_obs(observations)) if normalized else observations
    with torch.no_grad():
        tensor = torch.as_tensor(seen)
        values = model.policy.predict_values(tensor).numpy()
        distribution = model.policy.get_distribution(tensor).distribution
        actions = model.predict(seen, deterministic=True)[0].reshape(ROWS, -1)
    space = model.action_space
    if isinstance(space, spaces.Box):
        got = answers(observations, space.shape[0], space.shape[0])
        compare(problems, "mean", got[0], distribution.mean.numpy())
        compare(problems, "std", numpy.exp(got[1]), distribution.stddev.numpy())
        compare(problems, "actions", got[3], actions)
    else:
        if isinstance(space, spaces.MultiBinary):
            sizes, p = [2] * space.n, distribution.probs.numpy()
            p = numpy.stack([1 - p, p], 2).reshape(ROWS, -1)
        elif isinstance(space, spaces.MultiDiscrete):
            sizes, p = list(space.nvec), numpy.hstack([d.probs.numpy() for d in distribution])
        else:
            sizes, p = [int(space.n)], distribution.probs.numpy()
        got = answers(observations, sum(sizes), len(sizes))
        compare(problems, "probabilities", probabilities(got[0], sizes), p)
        tops = [numpy.sort(h, 1) for h in numpy.split(p, numpy.cumsum(sizes)[:-1], axis=1)]
        clear = numpy.stack([t[:, -1] - t[:, -2] > TOLERANCE for t in tops], 1)
        if (got[3] != actions)[clear].any():
            problems.append(f"{int((got[3] != actions)[clear].sum())} actions differ")
    compare(problems, "values", got[2], values)
    if trains:  # in ppo.h, which gives it back as C, too
        for more in (["--no-train", "--export", at("policy.h")], ["--steps", str(trains)]):
            command = ["build/train", "--load", at("policy.safetensors"), "--json", *more]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                problems.append(done.stderr.strip())
        if not problems and "policy_predict" not in open(at("policy.h")).read():
            problems.append("there is no C")
    report(name, problems)


def cartpole():
    return gymnasium.make("CartPole-v1")


def pendulum():
    return gymnasium.make("Pendulum-v1")


check_sb3("PPO on CartPole", sb3.PPO, cartpole, 5000, n_steps=512, trains=4096, flags=["--env", "CartPole-v1"])
check_sb3("PPO on Pendulum, VecNormalize, other widths for the critic", sb3.PPO, pendulum, 5000, normalized=True,
          n_steps=512, trains=4096, flags=["--env", "Pendulum-v1"],
          policy_kwargs={"net_arch": {"pi": [32, 64], "vf": [48, 16]}, "activation_fn": torch.nn.ReLU})
check_sb3("A2C on CartPole", sb3.A2C, cartpole, 5000, trains=4096, flags=["--env", "CartPole-v1"])
check_sb3("PPO, gSDE, squashed", sb3.PPO, pendulum, 600, n_steps=256, use_sde=True, sde_sample_freq=4, trains=4096,
          flags=["--env", "Pendulum-v1"], policy_kwargs={"squash_output": True})
check_sb3("A2C, gSDE, clipped", sb3.A2C, pendulum, 600, use_sde=True)
check_sb3("gSDE, one deviation for all numbers", sb3.PPO, lambda: Noise(spaces.Box(-3, 1, (3,))), 256, n_steps=64,
          use_sde=True, policy_kwargs={"full_std": False, "log_std_init": -1})
check_sb3("multi-discrete", sb3.PPO, lambda: Noise(spaces.MultiDiscrete([3, 2, 4])), 512, n_steps=128,
          policy_kwargs={"net_arch": [8, 7, 6], "activation_fn": torch.nn.ELU})
check_sb3("multi-binary", sb3.PPO, lambda: Noise(spaces.MultiBinary(4)), 512, n_steps=128, normalized=True,
          policy_kwargs={"activation_fn": torch.nn.SiLU})
check_sb3("no hidden layers", sb3.PPO, lambda: Noise(spaces.Discrete(3)), 256, n_steps=64,
          policy_kwargs={"net_arch": []})
check_sb3("GELU", sb3.PPO, lambda: Noise(spaces.Discrete(3)), 256, n_steps=64,
          policy_kwargs={"activation_fn": torch.nn.GELU})


# --- PyTorch -------------------------------------------------------------------------------------------------------

def network(*sizes, activation=torch.nn.Tanh):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), activation()]
    return torch.nn.Sequential(*layers[:-1])


class Agent(torch.nn.Module):
    """As CleanRL's."""

    def __init__(self, box=False, **kind):
        super().__init__()
        self.critic = network(5, 16, 16, 1, **kind)
        if box:
            self.actor_mean = network(5, 16, 16, 3, **kind)
            self.actor_logstd = torch.nn.Parameter(torch.randn(1, 3))
        else:
            self.actor = network(5, 16, 16, 3, **kind)


def check_torch(name, agent, actor, critic, flags, log_std=None, save=None, outputs=3, error=TOLERANCE):
    problems = []
    if save:
        save()
    else:
        torch.save(agent.state_dict(), at("model.pt"))
    status, said = convert(at("model.pt"), *flags)
    if status:
        report(name, [said])
        return
    observations = numpy.random.default_rng(2).normal(0, 2, (ROWS, 5)).astype(numpy.float32)
    with torch.no_grad():
        want = actor(torch.as_tensor(observations)).numpy()
        values = critic(torch.as_tensor(observations)).numpy() if critic else numpy.zeros((ROWS, 1), numpy.float32)
    got = answers(observations, outputs, outputs)
    compare(problems, "outputs", got[0], want)
    compare(problems, "values", got[2], values)
    if log_std is not None:
        compare(problems, "log_std", got[1], numpy.broadcast_to(log_std.detach().numpy(), got[1].shape))
    report(name, problems)


torch.manual_seed(1)
a = Agent()
check_torch("PyTorch, discrete", a, a.actor, a.critic, ["--action-space", "discrete 3"])
b = Agent(box=True, activation=torch.nn.ReLU)
check_torch("PyTorch, a box", b, b.actor_mean, b.critic,
            ["--action-space", "box 3 -2 2", "--activation", "relu"], b.actor_logstd)
c = network(5, 9, 3)
check_torch("PyTorch, an actor alone", c, c, None, ["--action-space", "discrete 3", "--actor", ""])
check_torch("PyTorch, inside of a dictionary", a, a.actor, a.critic, ["--action-space", "discrete 3"],
            save=lambda: torch.save({"epoch": 3, "model_state_dict": a.state_dict(), "optimizer": {}}, at("model.pt")))
half = Agent().half()
full = Agent()
full.load_state_dict({k: v.float() for k, v in half.state_dict().items()})
check_torch("PyTorch, 16 bits", half, full.actor, full.critic, ["--action-space", "discrete 3"])
brain = Agent().bfloat16()
full.load_state_dict({k: v.float() for k, v in brain.state_dict().items()})
check_torch("PyTorch, bfloat16", brain, full.actor, full.critic, ["--action-space", "discrete 3"])


# --- refusals ------------------------------------------------------------------------------------------------------

def check_refused(name, words, *flags, source="model.zip"):
    if os.path.exists(at("policy.safetensors")):
        os.remove(at("policy.safetensors"))
    status, said = convert(at(source), *flags)
    problems = [f"\"{said}\" does not say {word}" for word in words if word not in said]
    if status != 1 or said.count("\n") or "Traceback" in said or os.path.exists(at("policy.safetensors")):
        problems.append(f"status {status}: {said[-300:]}")
    report(name, problems)


def save(model):
    model.save(at("model.zip"))


def with_keys(**keys):
    """A PPO file with other weights: None removes one."""
    model = sb3.PPO("MlpPolicy", Noise(spaces.Discrete(3)), device="cpu")
    save(model)
    weights = model.policy.state_dict()
    for key, value in keys.items():
        key = key.replace("__", ".")
        if value is None:
            del weights[key]
        else:
            weights[key] = value
    with zipfile.ZipFile(at("model.zip")) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    stream = io.BytesIO()
    torch.save(weights, stream)
    parts["policy.pth"] = stream.getvalue()
    with zipfile.ZipFile(at("model.zip"), "w") as new:
        for name, data in parts.items():
            new.writestr(name, data)


class Pictures(Noise):
    def __init__(self):
        super().__init__(spaces.Discrete(2))
        self.observation_space = spaces.Box(0, 255, (36, 36, 1), numpy.uint8)

    def reset(self, *, seed=None, options=None):
        return numpy.zeros((36, 36, 1), numpy.uint8), {}


class Parts(Noise):
    def __init__(self):
        super().__init__(spaces.Discrete(2))
        self.observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, (2,))})


def ppo(env, policy="MlpPolicy", **kwargs):
    save(sb3.PPO(policy, env, device="cpu", policy_kwargs=kwargs))


save(sb3.DQN("MlpPolicy", Noise(spaces.Discrete(2)), device="cpu", buffer_size=10))
check_refused("DQN is refused", ["DQN", "neither PPO nor A2C"])
save(sb3.SAC("MlpPolicy", Noise(spaces.Box(-1, 1, (2,))), device="cpu", buffer_size=10))
check_refused("SAC is refused", ["SAC", "neither PPO nor A2C"])
save(sb3.TD3("MlpPolicy", Noise(spaces.Box(-1, 1, (2,))), device="cpu", buffer_size=10))
check_refused("TD3 is refused", ["TD3", "neither PPO nor A2C"])
ppo(Pictures(), "CnnPolicy")
check_refused("a CnnPolicy is refused", ["CnnPolicy"])
ppo(Pictures())
check_refused("pictures of bytes are refused", ["pictures"])
ppo(Parts(), "MultiInputPolicy")
check_refused("a MultiInputPolicy is refused", ["Dict"])
ppo(Noise(spaces.Discrete(3, start=1)))
check_refused("actions that begin at 1 are refused", ["begin at 1"])
ppo(Noise(spaces.Box(numpy.float32([-1, -2]), numpy.float32([1, 1]))))
check_refused("bounds that differ are refused", ["bounds"])
ppo(Noise(spaces.Discrete(3)), activation_fn=torch.nn.LeakyReLU)
check_refused("an unknown activation is refused", ["LeakyReLU", "Tanh"])
ppo(Noise(spaces.Discrete(3)), net_arch={"pi": [8], "vf": [8, 8]})
check_refused("other depths are refused", ["1 hidden layers", "2"])
with_keys(lstm_actor__weight_ih_l0=torch.zeros(4, 4))
check_refused("an LSTM is refused", ["LSTM"])
with_keys(action_net__weight=None)
check_refused("a missing weight is named", ["action_net.weight"])
with_keys(mlp_extractor__policy_net__2__weight=None)
check_refused("a missing layer is named", ["policy_net.2.weight"])
with_keys(features_extractor__linear__weight=torch.zeros(5, 5))
check_refused("layers of one's own are refused", ["features_extractor.linear.weight"])
with_keys(action_net__bias=torch.full((3,), float("nan")))
check_refused("NaN is refused", ["actor.2.bias", "not finite"])
with_keys()
check_refused("statistics that are none are refused", ["VecNormalize"], "--normalize", at("model.zip"))
pickle.dump({"obs_rms": 1}, open(at("none.pkl"), "wb"))
check_refused("statistics of something else are refused", ["VecNormalize"], "--normalize", at("none.pkl"))
check_refused("a missing file is refused", ["nowhere"], source="nowhere")
whole = open(at("model.zip"), "rb").read()
open(at("cut.zip"), "wb").write(whole[:len(whole) // 2])
check_refused("half a file is refused", ["cut.zip"], source="cut.zip")


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {at('executed')}",)


torch.save({"actor.0.weight": torch.zeros(3, 5), "evil": Evil()}, at("model.pt"))
check_refused("a pickle that calls a function is refused", ["dictionary of tensors"], "--action-space", "discrete 3",
              source="model.pt")
report("nothing was executed", ["a command of the pickle ran"] if os.path.exists(at("executed")) else [])
torch.save(a.state_dict(), at("model.pt"))
with zipfile.ZipFile(at("model.pt")) as old, zipfile.ZipFile(at("short.pt"), "w") as new:
    for name in old.namelist():
        new.writestr(name, old.read(name)[:8] if name.endswith("/data/0") else old.read(name))
check_refused("numbers that are missing are refused", ["beyond its storage"], "--action-space", "discrete 3",
              source="short.pt")
torch.save(a, at("model.pt"))
check_refused("a whole module is refused", ["state_dict"], "--action-space", "discrete 3", source="model.pt")
torch.save(a.state_dict(), at("model.pt"))
check_refused("an action space is asked for", ["--action-space"], source="model.pt")
check_refused("an invalid action space is refused", ["discrete"], "--action-space", "discrete", source="model.pt")
check_refused("other sizes are refused", ["3 outputs", "discrete 4"], "--action-space", "discrete 4", source="model.pt")
check_refused("a box without log_std is refused", ["--log-std"], "--action-space", "box 3 -1 1", source="model.pt")
torch.save(network(5, 4, 3).state_dict(), at("model.pt"))
check_refused("the actor is asked for", ["--actor"], "--action-space", "discrete 3", source="model.pt")
torch.save(torch.nn.ModuleDict({"actor": torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3))}).state_dict(), at("model.pt"))
check_refused("a convolution is refused", ["linear"], "--action-space", "discrete 3", source="model.pt")
print(f"1..{count}")
print(f"# stable-baselines3 {sb3.__version__}, torch {torch.__version__}")
sys.exit(failed > 0)
