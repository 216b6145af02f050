"""convert.py - brings a policy that was trained elsewhere into ppo.h, where it plays, is trained further, and exported.

    python convert.py cartpole.zip -o policy.safetensors --env CartPole-v1
    python convert.py pendulum.zip --normalize vec_normalize.pkl -o policy.safetensors
    python convert.py model.pt --action-space "box 1 -2 2" --activation relu -o policy.safetensors

    build/train --load policy.safetensors --no-train --export policy.onnx         (or policy.h)
    build/train --load policy.safetensors --steps 100000 --save better.safetensors

The first argument is a file of

    Stable-Baselines3    model.save(): PPO or A2C with an MlpPolicy, for the action spaces Discrete, MultiDiscrete,
                         MultiBinary and Box, with gSDE or without; VecNormalize's statistics by --normalize
    PyTorch              torch.save(model.state_dict()), or such weights as .safetensors, in floats of 64, 32 or
                         16 bits or bfloat16: an actor and, if there is one, a critic, made of linear layers with
                         one activation between them

and the result is a policy file of ppo.h (ppo_agent_load() reads it). Its probabilities, values and most likely actions
are those of the original up to rounding. Training starts with new moments of Adam. If actor and critic have hidden
layers of different widths, the narrower ones are filled up with units of zeros, which change nothing and stay zeros.
Folders of its path that are missing are made.

Needs numpy, but neither PyTorch nor Stable-Baselines3: their files are pickles, of which only numbers and names are
read here. Nothing that a file says is executed. A file that is damaged, or of another kind, is refused by one sentence,
which names the file.
"""
import argparse
import base64
import io
import json
import os
import pickle
import re
import struct
import sys
import zipfile

import numpy


class Refused(Exception):
    """One sentence about what cannot be converted."""


def of_file(path, function, *arguments):
    """What the function makes of a file's bytes. Whatever goes wrong becomes a sentence that names the file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        return function(data, *arguments)
    except Refused as error:
        what = str(error)
    except OSError as error:
        what = error.strerror or str(error)
    except Exception as error:  # whatever a damaged file leads to
        what = f"it is damaged, or of a kind that is not known: {type(error).__name__}: {error}"
    raise Refused(f"{path}: {' '.join(what.split())[:400]}") from None


def open_zip(data, what):
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile as error:
        raise Refused(f"{what}: {error}") from None


def member(archive, name):
    """A file in a .zip."""
    try:
        return archive.read(name)
    except Exception as error:  # a wrong sum, another compression, a password, an end that is missing
        raise Refused(f"{name} in it cannot be read: {error}") from None


def json_of(data, what):
    """An object of JSON."""
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(f"{what} is no JSON object, but a {type(found).__name__}")
    return found


# --- pickles -------------------------------------------------------------------------------------------------------

TYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8", "IntStorage": "<i4",
         "ShortStorage": "<i2", "CharStorage": "<i1", "ByteStorage": "<u1", "BoolStorage": "?"}
SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
               "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?"}
NUMPY = {"dtype", "ndarray", "_reconstruct", "scalar", "_frombuffer"}


def bfloat16(data):
    """The upper halves of floats."""
    return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")


class Thing:
    """Stands for an object whose class is not known here: its arguments, its fields, its items."""

    def __new__(cls, *args, **fields):
        thing = object.__new__(cls)
        thing.args, thing.fields, thing.items = args, fields, []
        return thing

    def __setstate__(self, state):
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.fields.update(part)

    def __call__(self, *args, **fields):
        return Thing(*args, **fields)

    def __setitem__(self, key, value):
        self.items.append((key, value))

    def append(self, value):
        self.items.append(value)

    def extend(self, values):
        self.items.extend(values)

    def get(self, name, default=None):
        return self.fields.get(name, default)


class Reader(pickle.Unpickler):
    """Knows numpy's arrays, PyTorch's tensors and what is built in; of all else it makes a Thing."""

    def __init__(self, data, archive=None):
        super().__init__(io.BytesIO(data))
        self.archive = archive  # of PyTorch: reads a member

    def find_class(self, module, name):
        if module.split(".")[0] == "numpy" and name in NUMPY:
            return super().find_class(module, name)
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *rest: data
        if (module, name) == ("collections", "OrderedDict"):
            return super().find_class(module, name)
        return type(name, (Thing,), {"__module__": module})

    def persistent_load(self, key):
        kind, storage, name = key[0], key[1].__name__, key[2]
        if kind != "storage" or self.archive is None:
            raise Refused("the pickle refers to something outside of it")
        data = self.archive(f"data/{name}")
        if storage == "BFloat16Storage":
            return bfloat16(data)
        if storage not in TYPES:
            raise Refused(f"tensors of PyTorch's {storage} cannot be read")
        return numpy.frombuffer(data, TYPES[storage])


def tensor(storage, offset, size, stride, *rest):
    """A view of a storage, as PyTorch describes it."""
    last = offset + sum((n - 1) * step for n, step in zip(size, stride))
    if offset < 0 or min(size, default=1) < 0 or min(stride, default=1) < 0 or (0 not in size and last >= storage.size):
        raise Refused("a tensor reaches beyond its storage")
    if 0 in size:
        return numpy.zeros(size, storage.dtype)
    strides = [step * storage.itemsize for step in stride]
    return numpy.lib.stride_tricks.as_strided(storage[offset:], size, strides).copy()


def unpickle(data, what, archive=None):
    try:
        return Reader(data, archive).load()
    except Refused:
        raise
    except Exception as error:  # whatever a damaged pickle leads to
        raise Refused(f"{what} cannot be read: {error}") from None


def torch_pickle(data, what):
    """What torch.save() wrote."""
    archive = open_zip(data, f"{what} is not a file of PyTorch 1.6 or later")
    names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if not names:
        raise Refused(f"{what} has no data.pkl: it is not a file of torch.save()")
    root = names[0][:-len("data.pkl")]
    if root + "byteorder" in archive.namelist() and member(archive, root + "byteorder") != b"little":
        raise Refused(f"{what} has its bytes in big-endian order")
    return unpickle(member(archive, names[0]), what, lambda name: member(archive, root + name))


# --- networks ------------------------------------------------------------------------------------------------------

ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "SiLU": "silu", "GELU": "gelu_erf", "Identity": "identity"}


def linear_layers(weights, prefix):
    """[(weight (in, out), bias (out))] of the keys prefix.N.weight, in the order of N."""
    found = {}
    for key in weights:
        name, _, last = key.rpartition(".")
        index = name[len(prefix):].lstrip(".")
        if last in ("weight", "bias") and name.startswith(prefix) and (index.isdigit() or name == prefix):
            found[int(index or 0)] = name
    layers = [name for _, name in sorted(found.items())]
    for name in layers:
        if name + ".weight" not in weights:
            raise Refused(f"there is no {name}.weight, but {name}.bias")
        if weights[name + ".weight"].ndim != 2:
            raise Refused(f"{name}.weight has {weights[name + '.weight'].ndim} dimensions: only linear layers can be "
                          "converted, not convolutions, and no normalization between them")
    none = [numpy.zeros(len(weights[name + ".weight"])) for name in layers]  # where a layer has no bias
    return [(weights[name + ".weight"].T, weights.get(name + ".bias", zeros)) for name, zeros in zip(layers, none)]


def check_chain(layers, what, inputs):
    for k, (weight, bias) in enumerate(layers):
        if len(weight) != inputs or bias.shape != weight.shape[1:]:
            raise Refused(f"layer {k} of the {what} is {weight.shape[0]} x {weight.shape[1]}, after {inputs} numbers")
        inputs = weight.shape[1]
    return inputs


def same_widths(actor, critic):
    """Fills the narrower hidden layers up with units of zeros."""
    if len(actor) != len(critic):
        raise Refused(f"the actor has {len(actor) - 1} hidden layers, the critic {len(critic) - 1}: in ppo.h both have "
                      "as many")
    widths = [max(a[0].shape[1], c[0].shape[1]) for a, c in zip(actor[:-1], critic[:-1])]
    filled = []
    for layers in (actor, critic):
        ins = [len(layers[0][0])] + widths
        outs = widths + [layers[-1][0].shape[1]]
        filled.append([(numpy.pad(w, ((0, i - w.shape[0]), (0, o - w.shape[1]))), numpy.pad(b, (0, o - len(b))))
                       for (w, b), i, o in zip(layers, ins, outs)])
    return filled[0], filled[1], widths


def two_options(weight, bias):
    """A bit's logit becomes those of its two options, 0 for the first."""
    return numpy.stack([0 * weight, weight], 2).reshape(len(weight), -1), numpy.stack([0 * bias, bias], 1).ravel()


MOST_CHOICES = 128  # in an action: PPO_MAX_CHOICES of ppo.h


class Policy:
    """What goes into the file."""

    def __init__(self, space, sizes, bounds=None):
        self.space, self.sizes, self.bounds = space, sizes, bounds
        choices = sum(sizes) if space == "multi-binary" else len(sizes)  # a box is one
        if min(sizes, default=0) < 1 or choices > MOST_CHOICES:
            raise Refused(f"actions are {space} {str(sizes)[:40]}: sizes are 1 or more, choices at most {MOST_CHOICES}")
        if bounds is not None and not bounds[0] < bounds[1]:
            raise Refused(f"actions are in a box from {bounds[0]} to {bounds[1]}: the one is not below the other")
        self.arrays, self.texts = {}, {}
        numbers = ",".join(map(str, sizes))
        if space == "box":
            numbers += "".join(f" {float(x):.9g}" for x in bounds)
            self.texts["scale_actions"] = "no"
        else:
            self.texts["scale_actions"] = "auto"
        self.texts["action_space"] = f"{space} {numbers}"

    def outputs(self):
        return {"multi-binary": 2 * self.sizes[0]}.get(self.space, sum(self.sizes))

    def add(self, name, array, kind="<f4"):
        array = numpy.asarray(array, kind, order="C")
        if not numpy.isfinite(array).all():
            raise Refused(f"{name} has a number that is not finite")
        self.arrays[name] = array

    def add_layers(self, part, layers):
        for k, (weight, bias) in enumerate(layers):
            self.add(f"{part}.{k}.weight", weight)
            self.add(f"{part}.{k}.bias", bias.reshape(1, -1))

    def add_networks(self, trunk, actor, critic, activation, inputs):
        """Linear layers each; no trunk: hidden layers of their own."""
        if self.space == "multi-binary":
            actor = actor[:-1] + [two_options(*actor[-1])]
        width = check_chain(trunk, "trunk", inputs)
        outputs, value = check_chain(actor, "actor", width), check_chain(critic, "critic", width)
        if outputs != self.outputs() or value != 1:
            raise Refused(f"the actor has {outputs} outputs and the critic {value}, for {self.texts['action_space']}")
        if trunk and len(actor) + len(critic) > 2:
            raise Refused("layers are shared by actor and critic, and others are not: ppo.h has the one or the other")
        actor, critic, widths = same_widths(actor, critic)
        self.features = len(actor[-1][0])
        self.add_layers("trunk", trunk)
        self.add_layers("actor", actor)
        self.add_layers("critic", critic)
        hidden = [w.shape[1] for w, _ in trunk] or widths
        self.texts.update(hidden=",".join(map(str, hidden)) or "none", activation=activation if hidden else "tanh",
                          shared_trunk="yes" if trunk else "no", observation_size=str(inputs))

    def add_log_std(self, log_std, sde=False):
        shape = (self.features if sde else 1, self.sizes[0])
        if log_std.ndim == 1 or (sde and log_std.shape[1:] == (1,)):  # one for all numbers of the action
            log_std = numpy.broadcast_to(log_std, shape)
        if log_std.shape != shape:
            raise Refused(f"log_std is {log_std.shape}, not {shape}")
        self.add("actor.log_std", log_std)

    def write(self, path):
        texts = {key: str(text) for key, text in sorted(self.texts.items())}
        header, at = {"__metadata__": texts}, 0
        arrays = sorted(self.arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
        for name, array in arrays:
            header[name] = {"dtype": {4: "F32", 8: "F64"}[array.itemsize], "shape": list(array.shape),
                            "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        header = json.dumps(header, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        if os.path.lexists(path) and not os.path.isfile(path):
            raise Refused(f"-o {path}: this is {'a folder' if os.path.isdir(path) else 'no plain file'}")
        part = f"{path}.{os.getpid()}.tmp"
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(part, "wb") as out:
                out.write(struct.pack("<Q", len(header)) + header + b"".join(array.tobytes() for _, array in arrays))
            os.replace(part, path)
        except OSError as error:
            raise Refused(f"-o {path}: {error.strerror or error}") from None
        finally:
            if os.path.exists(part):
                os.remove(part)


# --- Stable-Baselines3 ---------------------------------------------------------------------------------------------

def sb3_field(data, name):
    """An entry of the JSON; what it keeps as a pickle is read from that."""
    value = data.get(name)
    if isinstance(value, dict) and ":serialized:" in value:
        try:
            data = base64.b64decode(value[":serialized:"])
        except (TypeError, ValueError) as error:
            raise Refused(f"{name} is damaged: {error}") from None
        return unpickle(data, name)
    return value


def sb3_policy(space):
    """The action space, from Gymnasium's or Gym's."""
    kind, get = type(space).__name__, getattr(space, "fields", {}).get
    if kind == "Discrete":
        if int(get("start", 0)):
            raise Refused(f"the actions begin at {get('start')}: in ppo.h they are 0 to n - 1")
        return Policy("discrete", [int(get("n"))])
    if kind == "MultiDiscrete":
        sizes = numpy.asarray(get("nvec"))
        if numpy.any(get("start", 0)):
            raise Refused("the actions of MultiDiscrete do not begin at 0, as in ppo.h")
        return Policy("multi-discrete", [int(n) for n in sizes.ravel()])
    if kind == "MultiBinary":
        return Policy("multi-binary", [int(numpy.prod(get("n")))])
    if kind == "Box":
        low, high = numpy.asarray(get("low"), "f4"), numpy.asarray(get("high"), "f4")
        if (low != low.flat[0]).any() or (high != high.flat[0]).any():
            raise Refused("the bounds of the actions differ: a box of ppo.h has one for all its numbers")
        return Policy("box", [low.size], (low.flat[0], high.flat[0]))
    raise Refused(f"an action space {kind} is not known")


def sb3_observations(space, kwargs):
    kind, get = type(space).__name__, getattr(space, "fields", {}).get
    if kind != "Box":
        raise Refused(f"observations of the kind {kind} cannot be converted, only a Box")
    shape = get("_shape") or get("shape")
    if len(shape) == 3 and str(get("dtype")) == "uint8" and kwargs.get("normalize_images", True):
        raise Refused("observations are pictures of bytes: only an MlpPolicy of floats can be converted")
    return int(numpy.prod(shape))


def sb3_schedule(value):
    """The number behind a constant schedule; None: it is another one."""
    while isinstance(value, Thing):
        value = value.get("value_schedule", value.get("val"))
    return value if isinstance(value, (int, float)) else None


# What ppo.h's settings may be; those without a point are whole numbers.
RANGES = {"rollout_steps": (1, 16777216), "num_envs": (1, 65536), "minibatch_size": (0, 1073741824),
          "epochs": (1, 10000), "gsde_steps": (0, 16777216), "gamma": (0.0, 1.0), "gae_lambda": (0.0, 1.0),
          "entropy_coef": (0.0, 1e6), "value_coef": (0.0, 1e20), "max_grad_norm": (0.0, 1e20), "target_kl": (0.0, 1e6),
          "learning_rate": (0.0, 10.0), "clip_low": (0.0, 1.0), "clip_high": (0.0, 1e6), "clip_obs": (1e-6, 1e6),
          "clip_reward": (1e-6, 1e6)}


def setting(name, value):
    """A number as a policy's file has it."""
    least, most = RANGES[name]
    whole = isinstance(least, int)
    if not least <= value <= most or (whole and value != int(value)):
        raise Refused(f"{name} would be {value}, in ppo.h it is {'a whole number ' * whole}from {least} to {most}")
    return repr(type(least)(value))


def sb3_settings(data):
    """What ppo.h calls the settings of the training."""
    names = {"gamma": "gamma", "gae_lambda": "gae_lambda", "ent_coef": "entropy_coef", "max_grad_norm": "max_grad_norm",
             "n_steps": "rollout_steps", "n_envs": "num_envs", "batch_size": "minibatch_size", "n_epochs": "epochs",
             "target_kl": "target_kl"}
    numbers = {ours: data[theirs] for theirs, ours in names.items() if isinstance(data.get(theirs), (int, float))}
    if isinstance(data.get("vf_coef"), (int, float)):
        numbers["value_coef"] = 2.0 * data["vf_coef"]  # of half the mean squared error
    for theirs, ours in (("learning_rate", ["learning_rate"]), ("clip_range", ["clip_low", "clip_high"])):
        number = sb3_schedule(sb3_field(data, theirs))
        if number is not None:
            numbers.update({name: min(number, 1.0) if name == "clip_low" else number for name in ours})
    texts = {name: setting(name, number) for name, number in numbers.items()}
    texts["learning_rate_schedule"] = "constant"
    if "n_epochs" not in data:  # A2C: one step on the whole rollout
        texts.update(epochs="1", minibatch_size="0",
                     normalize_advantage="yes" if data.get("normalize_advantage") else "no")
    return texts


def add_statistics(data, policy):
    """VecNormalize's; its epsilon is added to the variance once and for all."""
    norm, inputs = unpickle(data, "the pickle of VecNormalize"), int(policy.texts["observation_size"])
    get = getattr(norm, "fields", {}).get
    if type(norm).__name__ != "VecNormalize":
        raise Refused(f"this is no VecNormalize, but {type(norm).__name__}")
    epsilon, wanted = float(get("epsilon", 1e-8)), []
    limit = lambda name: setting(name, min(float(get(name, 10.0)), RANGES[name][1]))  # often it is infinite
    if get("norm_obs", True):
        if not isinstance(get("obs_rms"), Thing):
            raise Refused("there are no statistics of one Box of observations")
        wanted.append(("obs_norm", get("obs_rms"), inputs))
        policy.texts.update(normalize_obs="yes", clip_obs=limit("clip_obs"))
    if get("norm_reward", True):
        wanted.append(("return_norm", get("ret_rms"), 1))
        policy.texts.update(normalize_reward="yes", clip_reward=limit("clip_reward"))
    for name, rms, size in wanted:
        mean, var = (numpy.asarray(rms.get(key)).reshape(-1) for key in ("mean", "var"))
        if mean.shape != (size,) or var.shape != (size,):
            raise Refused(f"{mean.size} means, for {size} numbers")
        policy.add(f"{name}.mean", mean, "<f8")
        policy.add(f"{name}.var", var + epsilon, "<f8")
        policy.add(f"{name}.count", numpy.float64(rms.get("count")), "<f8")


def are_weights(found):
    return isinstance(found, dict) and all(
        isinstance(key, str) and isinstance(array, numpy.ndarray) for key, array in found.items())


OTHERS = {"q_net": "DQN, neither PPO nor A2C", "critic.qf0": "SAC, TD3 or DDPG, neither PPO nor A2C",
          "quantile_net": "QR-DQN, neither PPO nor A2C", "lstm_actor": "RecurrentPPO: ppo.h has no LSTM",
          "features_extractor.cnn": "a CnnPolicy: only an MlpPolicy can be converted",
          "features_extractor.extractors": "a MultiInputPolicy: only an MlpPolicy can be converted"}
KNOWN = re.compile(r"(mlp_extractor\.(shared|policy|value)_net\.\d+|action_net|value_net)\.(weight|bias)|log_std")


def convert_sb3(archive):
    data = json_of(member(archive, "data"), "data in it")
    weights = torch_pickle(member(archive, "policy.pth"), "policy.pth")
    if not are_weights(weights):
        raise Refused("policy.pth is no dictionary of weights")
    for begin, what in OTHERS.items():
        if any(key.startswith(begin) for key in weights):
            raise Refused(f"this is {what}")
    for key in ("action_net.weight", "value_net.weight"):
        if key not in weights:
            raise Refused(f"there is no {key} among the weights: neither PPO nor A2C")
    for key in weights:
        if not KNOWN.fullmatch(key):
            raise Refused(f"there is {key} among the weights, which an MlpPolicy does not have")
    kwargs = sb3_field(data, "policy_kwargs") or {}
    if not isinstance(kwargs, dict):
        raise Refused(f"policy_kwargs is {kwargs!r}, no dictionary")
    sde = bool(data.get("use_sde"))
    if kwargs.get("use_expln"):
        raise Refused("the standard deviation of gSDE is by expln: ppo.h has exp alone")
    activation = kwargs.get("activation_fn")
    name = getattr(activation, "__name__", str(activation)) if activation else "Tanh"
    if name not in ACTIVATIONS:
        raise Refused(f"an activation {name} is not known: {', '.join(ACTIVATIONS)} are")
    policy = sb3_policy(sb3_field(data, "action_space"))
    inputs = sb3_observations(sb3_field(data, "observation_space"), kwargs)
    parts = [linear_layers(weights, f"mlp_extractor.{part}") for part in ("shared_net", "policy_net", "value_net")]
    policy.add_networks(parts[0], parts[1] + linear_layers(weights, "action_net"),
                        parts[2] + linear_layers(weights, "value_net"), ACTIVATIONS[name], inputs)
    if policy.space == "box":
        policy.add_log_std(weights["log_std"], sde)
        if sde:
            policy.texts.update(gsde="yes", gsde_steps=setting("gsde_steps", max(0, data.get("sde_sample_freq", 0))))
        if kwargs.get("squash_output"):
            policy.texts.update(squash="yes", scale_actions="auto")
    policy.texts.update(sb3_settings(data))
    return policy


# --- PyTorch -------------------------------------------------------------------------------------------------------

def read_safetensors(data):
    nothing = "this is no file of Stable-Baselines3, PyTorch or safetensors"
    end = 8 + int.from_bytes(data[:8], "little")
    if not 8 <= end <= len(data):
        raise Refused(nothing)
    header = json_of(data[8:end], f"{nothing}: its header")
    header.pop("__metadata__", None)
    return {name: safetensor(name, entry, memoryview(data)[end:]) for name, entry in header.items()}


def safetensor(name, entry, data):
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise Refused(f"{name} is not described by dtype, shape and data_offsets")
    if kind not in SAFETENSORS:
        raise Refused(f"{name} is of the type {kind}: {', '.join(SAFETENSORS)} can be read")
    size = numpy.dtype(SAFETENSORS[kind]).itemsize
    for n in shape:
        size *= n
    if not begin + size == end <= len(data):
        raise Refused(f"{name} has {max(min(end, len(data)) - begin, 0)} bytes, not the {size} of its shape")
    part = data[begin:end]
    return (bfloat16(part) if kind == "BF16" else numpy.frombuffer(part, SAFETENSORS[kind])).reshape(shape)


def parse_space(text):
    kind, _, rest = text.partition(" ")
    words = rest.replace(",", " ").split()
    try:
        if kind in ("discrete", "multi-binary") and len(words) == 1 or kind == "multi-discrete" and words:
            return Policy(kind, [int(n) for n in words])
        if kind == "box" and len(words) == 3:
            return Policy("box", [int(words[0])], [float(x) for x in words[1:]])
    except ValueError:
        pass
    except Refused as error:
        raise Refused(f"--action-space \"{text}\": {error}") from None
    raise Refused(f"--action-space \"{text}\": it is like \"discrete 2\", \"box 1 -2 2\", \"multi-discrete 3,2\" or "
                  "\"multi-binary 4\"")


def guess(weights, given, beginnings):
    """The prefix of layers: the one that is given, or the only one that begins in one of these ways."""
    prefixes = {key.rpartition(".")[0].rpartition(".")[0] or key.rpartition(".")[0] for key in weights
                if key.endswith(".weight")}
    found = [p for p in sorted(prefixes) if p.startswith(beginnings)]
    if given is None and len(found) == 1:
        return found[0]
    if given is not None and linear_layers(weights, given):
        return given
    return None


def convert_torch(weights, args, policy):
    for key in ("state_dict", "model_state_dict", "model"):
        weights = weights.get(key, weights) if isinstance(weights, dict) else weights
    if not are_weights(weights):
        raise Refused("this is no dictionary of tensors: save model.state_dict()")
    if policy is None:
        raise Refused("a file of PyTorch needs --action-space, as \"discrete 2\" or \"box 1 -2 2\"")
    keys = ", ".join(list(weights)[:8])
    actor = guess(weights, args.actor, ("actor", "policy", "pi"))
    critic = guess(weights, args.critic, ("critic", "value", "v"))
    if actor is None:
        raise Refused(f"which layers are the actor's? --actor PREFIX says it; there are {keys}")
    if critic is None and args.critic:
        raise Refused(f"there are no layers {args.critic}.N.weight; there are {keys}")
    layers = linear_layers(weights, actor)
    values = linear_layers(weights, critic) if critic else [(0 * w, 0 * b) for w, b in layers]
    if not critic:  # one that expects 0, as wide as the actor
        values[-1] = (values[-1][0][:, :1], values[-1][1][:1])
    inputs = len(layers[0][0])
    policy.add_networks([], layers, values, args.activation, inputs)
    key = None
    if policy.space == "box":
        names = ("actor_logstd", "log_std", "logstd")
        key = args.log_std or next((key for key in weights if key.split(".")[-1] in names), "")
        if key not in weights:
            raise Refused(f"there is no log_std, which a box needs: --log-std KEY says which; there are {keys}")
        policy.add_log_std(weights[key].reshape(1, -1) if weights[key].ndim > 1 else weights[key])
        policy.texts["scale_actions"] = "yes" if args.scale_actions else "no"
    used = [p for p in (actor, critic) if p is not None]
    rest = [k for k in weights if k != key and k.rpartition(".")[0].rstrip("0123456789").rstrip(".") not in used + [""]]
    if rest:
        print(f"convert.py: not used: {', '.join(rest)}", file=sys.stderr)
    return policy


def convert(data, args, space):
    """A policy of a file's bytes; space: of the command line, or None."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        if data[:1] == b"\x80":
            raise Refused("this is a pickle, but not of PyTorch 1.6 or later")
        if data[:2] == b"PK":
            raise Refused("this is a .zip whose end is missing or damaged")
        return convert_torch(read_safetensors(data), args, space)
    archive = open_zip(data, "this is a damaged .zip")
    if min((entry.header_offset for entry in archive.infolist()), default=0):  # what was found is a .zip in a .zip
        raise Refused("this is a .zip whose end is missing or damaged")
    if {"data", "policy.pth"} <= set(archive.namelist()):
        return convert_sb3(archive)
    return convert_torch(torch_pickle(data, "the file"), args, space)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the file of Stable-Baselines3 or PyTorch")
    parser.add_argument("-o", "--output", default="policy.safetensors", help="the policy [policy.safetensors]")
    parser.add_argument("--normalize", metavar="FILE.pkl", help="statistics that VecNormalize.save() wrote")
    parser.add_argument("--env", default="", help="the environment's name, with which build/train plays the policy")
    torch = parser.add_argument_group("files of PyTorch")
    torch.add_argument("--action-space", metavar="SPACE", help="as \"discrete 2\" or \"box 1 -2 2\"")
    torch.add_argument("--activation", default="tanh", choices=sorted(ACTIVATIONS.values()) + ["gelu"], help="[tanh]")
    torch.add_argument("--actor", metavar="PREFIX", help="its layers are PREFIX.0.weight, PREFIX.2.weight, ...")
    torch.add_argument("--critic", metavar="PREFIX", help="the same of the critic; without one it expects 0")
    torch.add_argument("--log-std", metavar="KEY", help="of a box: the log standard deviations")
    torch.add_argument("--scale-actions", action="store_true", help="of a box: the actor's -1..1 is mapped to it")
    args = parser.parse_args()
    try:
        policy = of_file(args.model, convert, args, parse_space(args.action_space) if args.action_space else None)
        if args.normalize:
            of_file(args.normalize, add_statistics, policy)
        policy.texts["environment"] = args.env[:63]
        policy.write(args.output)
    except Refused as error:
        print(f"convert.py: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {policy.texts['observation_size']} observed, {policy.texts['action_space']}, "
          f"hidden {policy.texts['hidden']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
