"""ppo.py - PPO for Gymnasium by ppo.h, with the names that users of Stable-Baselines3 type.

    from ppo import PPO, evaluate_policy
    model = PPO("MlpPolicy", "CartPole-v1", n_envs=8, verbose=1).learn(100_000)
    print(evaluate_policy(model, "CartPole-v1"))
    model.save("cartpole.safetensors")                     # build/train --watch plays it, too
    model.export_onnx("cartpole.onnx")                     # for ONNX Runtime; export_c() for firmware
    action, _ = PPO.load("cartpole.safetensors").predict(obs, deterministic=True)

One file, which needs numpy, Gymnasium, and the library of ppo.h: `make shared` builds it. It is looked for where
PPO_LIBRARY says, beside this file, and in build/; where it is missing, ppo.h is compiled once if there is a C compiler.

Environments: the name of one (n_envs copies), one or a list of them, or a vector environment with any of Gymnasium's
three ways to begin the next episode. Actions: Discrete, MultiDiscrete, MultiBinary, Box. Observations: Box, Discrete,
MultiDiscrete, MultiBinary, and a Dict or Tuple of these with at most one picture, which convolutions read (CnnPolicy,
MultiInputPolicy). Illegal actions: info["action_mask"], an array with a 0 for each, or a method action_masks().

Settings: Stable-Baselines3's names and defaults, and every name of ppo_config, such as hidden="256,256", recurrent=64,
normalize_obs=True: print(settings()) lists them. What differs is in README.md.
"""

import ctypes
import difflib
import functools
import inspect
import os
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np

VERSION = "0.3"  # of ppo.h
__all__ = ["PPO", "CheckpointCallback", "evaluate_policy", "make_vec_env", "settings", "use_kernels"]

# --- the library ---------------------------------------------------------------------------------------------------

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = {"darwin": "libppo.dylib", "win32": "ppo.dll"}.get(sys.platform, "libppo.so")
_ERRORS = {1: ValueError, 2: MemoryError, 3: FloatingPointError, 5: OSError}  # by ppo_status; else RuntimeError
_LEARN_MS = 100.0  # Ctrl-C is noticed after that


def _compile(source, include, to):
    """Compiles ppo.c as a shared library. It replaces an older one when it is complete."""
    handle, part = tempfile.mkstemp(dir=os.path.dirname(to))
    os.close(handle)
    command = [
        *shlex.split(os.environ.get("CC") or "cc"),
        "-O2",
        "-shared",
        "-fPIC",
        "-DPPO_NO_LANGUAGE",
        "-I" + include,
        source,
        "-o",
        part,
    ]
    command += [] if sys.platform == "win32" else ["-lm", "-pthread"]
    print("ppo.py: compiles ppo.h once: " + " ".join(command), file=sys.stderr)
    try:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise OSError("ppo.h does not compile (%s): %s" % (" ".join(command), done.stderr.strip()[:500]))
        os.chmod(part, 0o755)
        os.replace(part, to)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _find():
    """The path of the library, which is compiled if it is not there."""
    named = os.environ.get("PPO_LIBRARY")
    if named:
        return named
    root = os.path.dirname(os.path.dirname(_HERE))
    for folder in (_HERE, os.path.join(root, "build"), "build"):
        path = os.path.join(folder, _NAME)
        if os.path.exists(path):
            return os.path.abspath(path)
    for source, include in ((os.path.join(_HERE, "ppo.c"), _HERE), (os.path.join(root, "examples", "ppo.c"), root)):
        if os.path.exists(source) and os.path.exists(os.path.join(include, "ppo.h")):
            folder = os.path.join(include, "build") if include == root else _HERE
            os.makedirs(folder, exist_ok=True)
            try:
                _compile(source, include, os.path.join(folder, _NAME))
            except FileNotFoundError as error:
                raise OSError("there is no %s, and no C compiler: %s" % (_NAME, error)) from None
            return os.path.join(folder, _NAME)
    raise OSError(
        "there is no %s: build it by `make shared` in a clone of ppo.h, and put it beside ppo.py or its path into the "
        "environment variable PPO_LIBRARY" % _NAME
    )


def _open(path):
    library = ctypes.CDLL(path)
    if not hasattr(library, "ppo_flat_version"):
        raise OSError("%s is not the library that `make shared` builds" % path)
    handle, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    out, floats, doubles = ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p
    functions = {
        "ppo_flat_version": (text,),
        "ppo_last_error": (text,),
        "ppo_flat_config_create": (number, out),
        "ppo_flat_config_free": (None, handle),
        "ppo_flat_config_set": (number, handle, text, text),
        "ppo_flat_config_get": (number, handle, text, text, size),
        "ppo_flat_config_preset": (number, handle, text),
        "ppo_flat_config_schedule": (number, handle, _Schedule, handle),
        "ppo_flat_setting": (number, number, ctypes.POINTER(text), doubles, ctypes.POINTER(number)),
        "ppo_flat_presets": (text,),
        "ppo_flat_env_create": (number, text, number, number, handle, ctypes.c_float, text, out),
        "ppo_flat_env_free": (None, handle),
        "ppo_agent_create": (number, handle, handle, out),
        "ppo_agent_free": (None, handle),
        "ppo_agent_save": (number, handle, text),
        "ppo_agent_load": (number, text, handle, out),
        "ppo_export_onnx": (number, handle, text, ctypes.POINTER(number)),
        "ppo_export_c": (number, handle, text, text),
        "ppo_use_kernels": (number, text),
        "ppo_kernels_name": (text,),
        "ppo_flat_agent": (number, handle, handle, floats, text, text, size, handle),
        "ppo_flat_rng": (None, ctypes.c_uint64, ctypes.c_uint32, handle),
        "ppo_flat_act": (number, handle, number, floats, handle, floats, handle, handle, floats),
        "ppo_flat_value": (number, handle, number, floats, floats, floats),
        "ppo_trainer_create": (number, handle, handle, handle, out),
        "ppo_trainer_free": (None, handle),
        "ppo_trainer_done": (number, handle),
        "ppo_trainer_ready": (number, handle),
        "ppo_trainer_steps": (ctypes.c_int64, handle),
        "ppo_trainer_observe_many": (number, handle, number, handle, floats, handle, floats, handle, handle, floats),
        "ppo_trainer_act_many": (number, handle, number, handle, handle, floats),
        "ppo_flat_learn": (number, handle, ctypes.c_double, ctypes.POINTER(number)),
        "ppo_flat_figure": (text, number),
        "ppo_flat_figures": (number, handle, doubles),
        "ppo_flat_warning": (text, handle),
        "ppo_log_open": (number, text, text, ctypes.c_int64, out),
        "ppo_log_close": (None, handle),
        "ppo_log_scalar": (number, handle, text, ctypes.c_double, ctypes.c_int64),
        "ppo_flat_log": (number, handle, handle, doubles),
    }
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if not library.ppo_flat_version().decode().startswith(VERSION + "."):
        raise OSError("%s is version %s, ppo.py is for %s" % (path, library.ppo_flat_version().decode(), VERSION))
    return library


_Schedule = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int, ctypes.c_float, ctypes.c_float, ctypes.c_void_p)
_library = None


def _lib():
    global _library
    if _library is None:
        _library = _open(_find())
    return _library


def _check(status):
    if status:
        raise _ERRORS.get(status, RuntimeError)(_lib().ppo_last_error().decode())


def _created(function, *arguments, check=_check):
    """The handle that a function of the library makes."""
    handle = ctypes.c_void_p()
    check(function(*arguments, ctypes.byref(handle)))
    return handle


def _text(text):
    """For the library, to which a NUL is the end."""
    return _whole_text(text.encode(), text)


def _path(path):
    return _whole_text(os.fsencode(path), path)


def _whole_text(data, given):
    if b"\0" in data:
        raise ValueError("%r has a NUL in it" % (given,))
    return data


def _at(array):
    """The address of a numpy array's numbers, None for None."""
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def use_kernels(name=None):
    """Chooses the inner loops of all models of this program: "plain", "avx2", "avx512", "neon" or another name of ppo.h's,
    None for the best that the processor has. Each set trains to bits of its own. Answers the name of those in use."""
    _check(_lib().ppo_use_kernels(name and _text(name)))
    return _lib().ppo_kernels_name().decode()


# --- settings ------------------------------------------------------------------------------------------------------


@functools.lru_cache(None)
def _all_settings():
    """Every setting of ppo_config: {name: (type, default, choices, help, network)}"""
    texts, network, found = (ctypes.c_char_p * 5)(), ctypes.c_int(), {}
    while not _lib().ppo_flat_setting(len(found), texts, None, ctypes.byref(network)):
        name, kind, default, choices, line = (t.decode() for t in texts)
        found[name] = kind, default, choices, line, bool(network.value)
    return found


_NOT_HERE = ("k3-penalty", "custom")  # of tokens; what a function is


def settings():
    """The settings of ppo.h as a text: a line for each name, with what it does and the words that it may be, PPO's
    default, and Stable-Baselines3's name where it is another one, with its default if that is another number."""
    config = _Config()
    config.put("learning_rate_schedule", "constant")
    usual = {name: p.default for name, p in inspect.signature(PPO).parameters.items()}
    known = set(_all_settings()) | {typed for typed, _ in _SAME}
    _put_all(config, {n: v for n, v in usual.items() if n in known and v is not None})
    typed = {ours: name for name, ours in _SAME}

    def row(name, choices, line):
        default, theirs = config.get(name), ""
        if name in typed:
            theirs, other = typed[name], usual[typed[name]]
            if type(other) in (int, float) and other != float(default):
                theirs += "=%g" % other + (", half of this" if name == "value_coef" else "")
            theirs = " (%s)" % theirs
        if choices not in ("", "no|yes"):
            default += "; " + "|".join(word for word in choices.split("|") if word not in _NOT_HERE)
        line = re.sub("--([a-z]+) ([a-z-]+)", r'\1="\2"', line)
        return "%-23s %s  [%s]%s" % (name, line, default, theirs)

    return "\n".join(row(name, setting[2], setting[3]) for name, setting in _all_settings().items())


def _whole(name, value, least=None):
    """A whole number of at least that. A float has one only if it is one; comparisons with int are exact."""
    try:
        number = int(value)
        if not isinstance(value, (int, np.integer, str)) and number != float(value):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError("%s is %r, must be a whole number" % (name, value)) from None
    if least is not None and number < least:
        raise ValueError("%s is %d, must be %d or more" % (name, number, least))
    return number


class _Config:
    """A ppo_config. _Config.put() takes Python's values, or the texts of ppo.h's command line."""

    def __init__(self):
        self.handle = _created(_lib().ppo_flat_config_create)
        self.schedules = {}  # functions by number of the setting, see ppo_scheduled_setting
        self.failed = None  # what such a function raised
        self.typed = {"num_envs": "n_envs", "total_steps": "total_timesteps"}  # ppo.h's names, as they were given
        self._callback = _Schedule(self._scheduled)

    def __del__(self):
        if getattr(self, "handle", None):
            _lib().ppo_flat_config_free(self.handle)

    def check(self, status):
        """_check(), whose sentence has the names that were given."""
        try:
            _check(status)
        except ValueError as error:
            words = re.sub(r"\w+", lambda word: self.typed.get(word[0], word[0]), str(error))
            raise ValueError(words) from None

    def put(self, name, value):
        if isinstance(value, (list, tuple)):
            value = ",".join("x".join(map(str, v)) if isinstance(v, (list, tuple)) else str(v) for v in value) or "none"
        if isinstance(value, (bool, np.bool_)):
            value = {True: "yes", False: "no"}[bool(value)] if "no|yes" in _all_settings()[name][2] else str(int(value))
        elif isinstance(value, (float, np.floating)):
            value = "%.17g" % value
        self.check(_lib().ppo_flat_config_set(self.handle, _text(name), _text(str(value))))

    def get(self, name):
        text = ctypes.create_string_buffer(512)
        _check(_lib().ppo_flat_config_get(self.handle, _text(name), text, len(text)))
        return text.value.decode()

    def schedule(self, number, function):
        """Calls function(1 .. 0), with the share of the steps that remains, as Stable-Baselines3 does."""
        self.schedules[number] = function
        _check(_lib().ppo_flat_config_schedule(self.handle, self._callback, None))

    def _scheduled(self, number, initial, progress, user):
        try:
            name = next(name for name, (_, settings_) in _SCHEDULED.items() if number in settings_.values())
            return _at_most(number, _rate(name, self.schedules[number](1.0 - progress), True))
        except BaseException as error:  # it cannot pass through C: learn() raises it
            self.failed = error
            return 0.0


# Stable-Baselines3's names, and ours.
_RENAMED = {
    "n_steps": "rollout_steps",
    "batch_size": "minibatch_size",
    "n_epochs": "epochs",
    "clip_range_vf": "value_clip",
    "ent_coef": "entropy_coef",
    "use_sde": "gsde",
    "sde_sample_freq": "gsde_steps",
}
_SAME = list(_RENAMED.items()) + [("vf_coef", "value_coef"), ("clip_range", "clip_low"), ("clip_range", "clip_high")]
# What may be a function: the setting of its schedule, and its own ones by their numbers in ppo_scheduled_setting.
_SCHEDULED = {
    "learning_rate": ("learning_rate_schedule", {"learning_rate": 0}),
    "clip_range": ("clip_schedule", {"clip_low": 1, "clip_high": 2}),
    "ent_coef": ("entropy_schedule", {"entropy_coef": 3}),
}
_CNN = {"hidden": "512", "activation": "relu", "shared_trunk": True}
_LARGE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, least kernel, stride
_SMALL = ((16, 2, 1), (32, 2, 1), (64, 2, 1))
_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


def _convolutions(shape):
    """Layers for a picture, whose kernels leave no pixel over."""
    sizes, layers = shape[1:], []
    for channels, least, stride in _SMALL if min(sizes) < 36 else _LARGE:
        fits = [k for k in range(least, least + stride) if all(n >= k and (n - k) % stride == 0 for n in sizes)]
        if not fits:
            raise ValueError(
                "no usual convolutions fit pictures of %d x %d: resize them (gymnasium.wrappers.ResizeObservation), or give "
                'conv, like conv="32x8x4,64x4x2"' % shape[1:]
            )
        layers.append("%dx%dx%d" % (channels, fits[0], stride))
        sizes = [(n - fits[0]) // stride + 1 for n in sizes]
    return ",".join(layers)


def _nearest(name, names):
    near = difflib.get_close_matches(name, names, 1, 0.5)
    return ', the nearest is "%s"' % near[0] if near else ""


def _of_policy_kwargs(kwargs):
    """policy_kwargs in ppo.h's names."""
    given = {}
    for name, value in (kwargs or {}).items():
        if name == "net_arch":
            if isinstance(value, dict):
                widths = list(value.values())
                if len(widths) != 2 or list(widths[0]) != list(widths[1]):
                    raise ValueError("net_arch is %r: pi and vf must have the same widths" % (value,))
                value = widths[0]
            given["hidden"] = list(value)
        elif name == "activation_fn":
            given["activation"] = str(getattr(value, "__name__", value)).lower()
        elif name == "ortho_init":
            given["init"] = "orthogonal" if value else "uniform"
        elif name == "squash_output":
            given["squash"] = bool(value)
        elif name == "log_std_init":
            given["log_std_init"] = value
        elif name == "optimizer_kwargs":
            names = {"eps": "adam_eps", "weight_decay": "weight_decay"}
            for key, number in value.items():
                if key == "betas":
                    given["adam_beta1"], given["adam_beta2"] = number
                elif key in names:
                    given[names[key]] = number
                else:
                    raise ValueError('optimizer_kwargs has "%s": there are betas, eps and weight_decay' % key)
        else:
            raise ValueError(
                'policy_kwargs has "%s": there are net_arch, activation_fn, ortho_init, log_std_init, squash_output and '
                "optimizer_kwargs; convolutions are the setting conv" % name
            )
    return given


def _rate(name, value, of_function):
    """A finite number, 0 or more, that is the value of such a setting or of its function."""
    try:
        if of_function and isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("%s is %r, neither a number nor a function of what remains" % (name, value)) from None
    if not 0 <= number <= float(np.finfo(np.float32).max):
        raise ValueError("%s is %r, must be a finite number, 0 or more" % (name, value))
    return number


def _at_most(index, number):
    """No ratio is below 0: clip_low ends at 1."""
    return min(number, 1.0) if index == _SCHEDULED["clip_range"][1]["clip_low"] else number


def _put_scheduled(config, name, value):
    """A number, or a function of the share of the steps that remains. A number ends what the function did."""
    schedule, settings_ = _SCHEDULED[name]
    number = _rate(name, value(1.0) if callable(value) else value, callable(value))
    for setting, index in settings_.items():
        config.put(setting, _at_most(index, number))
        if callable(value):
            config.schedule(index, value)
    if callable(value):
        config.put(schedule, "custom")
    elif config.get(schedule) == "custom":
        config.put(schedule, "constant")


def _put_all(config, given):
    """Keyword arguments into a config: those of Stable-Baselines3, and ppo.h's own."""
    known = _all_settings()
    for name, value in given.items():
        for typed, ours in _SAME:
            if name in (typed, ours):
                config.typed[ours] = name
        if name == "vf_coef":
            try:
                config.put("value_coef", 2 * float(value))  # of half the squared error here
            except (TypeError, ValueError):
                raise ValueError("vf_coef is %r, must be a number, 0 or more" % (value,)) from None
        elif name in _SCHEDULED:
            _put_scheduled(config, name, value)
        elif name in ("clip_range_vf", "target_kl") and value is None:
            continue
        elif name == "sde_sample_freq":
            config.put("gsde_steps", max(_whole(name, value), 0))
        elif name in _RENAMED or name in known:
            config.put(_RENAMED.get(name, name), value)
        else:
            names = list(known) + list(_RENAMED) + ["vf_coef", "clip_range", "policy_kwargs", "tensorboard_log"]
            raise ValueError('there is no setting "%s"%s' % (name, _nearest(name, names)))


# --- spaces --------------------------------------------------------------------------------------------------------


def _kind(space):
    """The name of a space's class in Gymnasium, also for a class that is derived from it."""
    names = [c.__name__ for c in type(space).__mro__]
    known = ("Discrete", "Box", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")
    return next((n for n in names if n in known), type(space).__name__)


class _Unfit(ValueError):
    """An observation that is not of its space."""


def _named(keys):
    return "observation" + "".join("[%r]" % k for k in keys)


def _of_shape(given, shape, one, keys=()):
    """An array of numbers, of the shape that the space and the number of environments ask for; one: of a single one."""
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise _Unfit("%s is not an array of numbers: %s" % (_named(keys), repr(given)[:60]))
    if array.shape != shape[one:]:
        raise _Unfit("%s has shape %s, the space says %s" % (_named(keys), array.shape, shape[one:]))
    return array.reshape(shape)


class _Observations:
    """Writes observations of a space into rows of float32: the picture first, as channels, height, width, then the
    numbers; what is one of several is a row of 0 with a 1."""

    def __init__(self, space, convolve, byte_scale=None):
        self.space = space
        self.parts = []  # (keys that lead there, kind, space, offset, size, factor)
        self.shape = None  # of the picture that convolutions read
        self.byte_scale = 0.0
        leaves = list(self._leaves(space, ()))
        pictures = [l for l in leaves if _kind(l[1]) == "Box" and len(l[1].shape) == 3]
        if convolve and len(pictures) > 1:
            raise ValueError("the observation has %d pictures: convolutions read one" % len(pictures))
        offset = 0
        for keys, leaf in sorted(leaves, key=lambda l: l not in pictures):
            kind, factor = _kind(leaf), 1.0
            if (keys, leaf) in pictures:
                bytes_of = leaf.dtype == np.uint8
                factor = np.float32(byte_scale if byte_scale else 1 / 255) if bytes_of else 1.0
                shape = leaf.shape
                last = int(np.argmin(shape)) == 2  # channels, as in Stable-Baselines3
                if convolve:
                    kind = "HWC" if last else "CHW"
                    self.shape = (shape[2], shape[0], shape[1]) if last else tuple(shape)
                    self.byte_scale = float(factor) if bytes_of else 0.0
            size = {"Discrete": lambda: int(leaf.n), "MultiDiscrete": lambda: int(np.sum(leaf.nvec))}.get(
                kind, lambda: int(np.prod(leaf.shape))
            )()
            self.parts.append((keys, kind, leaf, offset, size, factor))
            offset += size
        self.size = offset
        plain = len(self.parts) == 1 and self.parts[0][1] == "Box" and self.parts[0][5] == 1.0
        self.plain = plain and not self.parts[0][0]  # rows are the observations themselves
        if not self.size:
            raise ValueError("the observation space has no numbers: %s" % (space,))

    def _leaves(self, space, keys):
        kind = _kind(space)
        if kind in ("Dict", "Tuple"):
            inner = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
            for key, part in inner:
                yield from self._leaves(part, keys + (key,))
        elif kind in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
            yield keys, space
        else:
            raise ValueError(
                "%s is of %s, which has no numbers: leave it out, as by "
                "gymnasium.wrappers.FilterObservation" % (_named(keys), kind)
            )

    def write(self, obs, rows, one=False):
        """obs: of `len(rows)` environments, as a vector environment gives them; one: of a single one."""
        n = len(rows)
        for keys, kind, space, offset, size, factor in self.parts:
            part, to = self._part(obs, keys), rows[:, offset : offset + size]
            part = _of_shape(part, (n,) + (() if kind == "Discrete" else tuple(space.shape)), one, keys)
            if kind == "HWC":
                part = np.moveaxis(part, -1, 1)
            if kind == "Discrete":
                to[...] = self._choices(part.reshape(n, 1), space, keys) == np.arange(size)
            elif kind == "MultiDiscrete":
                part, begin = self._choices(part.reshape(n, -1), space, keys), 0
                for j, choices in enumerate(np.ravel(space.nvec)):
                    to[:, begin : begin + choices] = part[:, j : j + 1] == np.arange(choices)
                    begin += choices
            else:
                if kind == "MultiBinary" and not ((part == 0) | (part == 1)).all():
                    raise _Unfit("%s is %s, which is not in the space: it has 0 and 1" % (_named(keys), part.tolist()))
                np.multiply(part.reshape(to.shape), factor, out=to, dtype=np.float32, casting="unsafe")

    def layout(self):
        """A line for each part of a row."""
        lines = []
        for keys, kind, space, offset, size, factor in self.parts:
            dimensions = " x ".join(map(str, space.shape))
            if kind in ("CHW", "HWC"):
                text = "channels x height x width, %s" % " x ".join(map(str, self.shape))
            elif kind == "Box" or kind == "MultiBinary":
                text = "its numbers, %s" % dimensions if len(space.shape) > 1 else "its numbers"
            else:
                text = "1 for the choice among %d, else 0" % size
                if kind == "MultiDiscrete":
                    text = "for each choice 1 among its options, else 0: %s" % np.ravel(space.nvec).tolist()
                if np.any(getattr(space, "start", 0)):
                    text += ", from %s on" % np.array(space.start).tolist()
            if factor != 1.0:
                text += ", each times %s" % factor
            lines.append("row[%d .. %d]: %s: %s" % (offset, offset + size - 1, _named(keys), text))
        return lines

    def one(self, obs, row):
        """The same for the observation of a single environment; row: (1, size)."""
        self.write(obs, row, True)

    @staticmethod
    def _part(obs, keys):
        for depth, key in enumerate(keys):
            try:
                obs = obs[key]
            except (KeyError, IndexError, TypeError, ValueError):
                there = _named(keys[: depth + 1])
                raise _Unfit("there is no %s, which the space has" % there) from None
        return obs

    @staticmethod
    def _choices(part, space, keys):
        """Choices as numbers from 0 on."""
        start = np.ravel(getattr(space, "start", 0))
        most = np.ravel(space.nvec) if hasattr(space, "nvec") else space.n
        choices = part - start
        fits = (choices >= 0) & (choices < most)  # NaN does not
        if choices.dtype.kind == "f":
            fits &= choices == np.floor(choices)
        if not fits.all():
            raise _Unfit("%s is %s, which is not in the space: %s" % (_named(keys), part.tolist(), _sizes(space)))
        return choices

    def count(self, obs):
        """How many environments an observation is of; 0: of one, without a first dimension."""
        keys, kind, space = self.parts[0][:3]
        if isinstance(obs, dict) and not keys:
            raise _Unfit("the observation is a dict, the policy takes numbers: PPO.load(path, env=...) knows the Dict")
        part = self._part(obs, keys)
        dimensions = 0 if kind == "Discrete" else len(space.shape)
        try:
            shape = np.shape(part)
        except ValueError:
            raise _Unfit("%s is not an array of numbers" % _named(keys)) from None
        if len(shape) == dimensions + 1 and (not dimensions or shape[1:] == tuple(space.shape)):
            return shape[0]
        if shape == (tuple(space.shape) if dimensions else ()):
            return 0
        hint = ": PPO.load(path, env=...) knows the space" if isinstance(space, _Numbers) else ""
        raise _Unfit("the %s has shape %s, not %s%s" % (_named(keys), shape, tuple(space.shape), hint))


def _sizes(space):
    """What choices there are, in a sentence."""
    start = getattr(space, "start", 0)
    if hasattr(space, "nvec"):
        return "it has %s choices each, from %s on" % (np.array(space.nvec).tolist(), np.array(start).tolist())
    return "it is %d .. %d" % (start, start + space.n - 1)


class _Numbers:
    """A Box of one dimension without bounds, for a policy that was loaded without an environment."""

    def __init__(self, size):
        self.shape, self.dtype = (size,), np.dtype(np.float32)


_Numbers.__name__ = "Box"


_MOST_CHOICES = 128  # of an action: PPO_MAX_CHOICES of ppo.h
_MOST_OPTIONS = (2**31 - 1) // _MOST_CHOICES  # of a choice


class _Actions:
    """Actions in ppo.h's words, and as an environment takes them."""

    def __init__(self, space):
        self.space, self.kind = space, _kind(space)
        self.low = self.high = None
        if self.kind == "Discrete":
            self.start, self.width, self.options = int(getattr(space, "start", 0)), 1, int(space.n)
            self.text = "discrete %d" % space.n
        elif self.kind == "MultiDiscrete":
            sizes = np.ravel(space.nvec)
            self.start, self.width, self.options = np.asarray(getattr(space, "start", 0)), len(sizes), int(sizes.sum())
            self.text = "multi-discrete " + ",".join(map(str, sizes))
        elif self.kind == "MultiBinary":
            self.width = int(np.prod(space.shape))
            self.options = 2 * self.width
            self.text = "multi-binary %d" % self.width
        elif self.kind == "Box":
            low, high = np.ravel(space.low).astype(np.float32), np.ravel(space.high).astype(np.float32)
            self.width, self.options = low.size, 0
            if not low.size:
                bounds = -1, 1
            elif (low == low[0]).all() and (high == high[0]).all() and np.isfinite(low[0]) == np.isfinite(high[0]):
                bounds = low[0], high[0]
            elif np.isfinite(low).all() and np.isfinite(high).all():
                bounds, self.low, self.high = (-1, 1), low, high  # each number has a range of its own
                self.mapped = True
            else:
                bounds, self.low, self.high = (-np.inf, np.inf), low, high
                self.mapped = False
            self.text = "box %d %.9g %.9g" % (self.width, *bounds)
        else:
            raise ValueError("actions are of %s: there are Discrete, MultiDiscrete, MultiBinary and Box" % self.kind)
        self._check_sizes()

    def _check_sizes(self):
        if not self.width:
            raise ValueError("the action space has no numbers: %s" % (self.space,))
        if self.kind == "Box":
            return
        if self.width > _MOST_CHOICES:
            raise ValueError(
                "the actions are a %s of %d choices, more than %d: a policy of ppo.h has no more"
                % (self.kind, self.width, _MOST_CHOICES)
            )
        most = int(np.max(getattr(self.space, "nvec", self.options if self.kind == "Discrete" else 2)))
        if most > _MOST_OPTIONS:
            raise ValueError("a choice of the actions has %d options, more than %d" % (most, _MOST_OPTIONS))

    def buffers(self, n):
        """Arrays for the actions of n environments: choices, numbers; one of them is None."""
        floats = self.kind == "Box"
        return (
            None if floats else np.zeros((n, self.width), np.int32),
            np.zeros((n, self.width), np.float32) if floats else None,
        )

    def nvec(self):
        """How many options each choice has."""
        sizes = {"Discrete": self.options, "MultiBinary": 2}.get(self.kind)
        return np.full(self.width, sizes) if sizes else np.ravel(self.space.nvec)

    def layout(self):
        """How an environment's action is made of an answer."""
        if self.kind != "Box":
            how = "answer" if self.kind == "MultiBinary" or not np.any(self.start) else "%s + answer" % self.start
            return "action: %s, of choices from 0 to %s" % (how, (self.nvec() - 1).tolist())
        whole = ", cut to %s" % self.space.dtype if self.space.dtype.kind in "iu" else ""
        if self.low is None:
            return "action: answer, which is within %s%s" % (self.text.split(" ", 2)[2].replace(" ", " .. "), whole)
        how = "low + (answer + 1) / 2 * (high - low), of an answer in -1 .. 1" if self.mapped else "answer, clipped"
        return "action: %s; low %s, high %s%s" % (how, self.low.tolist(), self.high.tolist(), whole)

    def many(self, choices, numbers):
        """As a vector environment takes them."""
        if self.kind == "Discrete":
            return choices[:, 0].astype(np.int64) + self.start if self.start else choices[:, 0].astype(np.int64)
        if self.kind == "Box":
            if self.low is not None and self.mapped:
                numbers = self.low + (numbers + 1) * (0.5 * (self.high - self.low))
            numbers = numbers.reshape((-1,) + self.space.shape)
            if self.low is not None or self.space.dtype != np.float32:  # which may have bounds that no float32 is
                numbers = np.clip(numbers.astype(np.float64), self.space.low, self.space.high)
            return numbers.astype(self.space.dtype)
        actions = choices.reshape((-1,) + self.space.shape).astype(self.space.dtype)
        return actions + self.start.astype(self.space.dtype) if self.kind == "MultiDiscrete" else actions


# --- environments --------------------------------------------------------------------------------------------------


def make_vec_env(env_id, n_envs=1, seed=None, wrapper_class=None, env_kwargs=None):
    """n_envs environments, as a list that PPO takes. env_id: a name, or a function that makes one."""
    made = []
    for _ in range(n_envs):
        env = (
            _gymnasium().make(env_id, **(env_kwargs or {})) if isinstance(env_id, str) else env_id(**(env_kwargs or {}))
        )
        made.append(wrapper_class(env) if wrapper_class else env)
    if seed is not None:
        for k, env in enumerate(made):
            env.reset(seed=seed + k)
    return made


def _gymnasium():
    try:
        import gymnasium
    except ImportError:
        raise ImportError("to make an environment by its name, install Python's package gymnasium") from None
    return gymnasium


def _method(env, name):
    """A method of an environment, or of what its wrappers are around; None: there is none."""
    while env is not None:
        if callable(getattr(env, name, None)):
            return getattr(env, name)
        inner = getattr(env, "env", None)
        env = None if inner is env else inner
    return None


def _mask_of(info, method):
    """The mask that an environment has told, or None. method: it also has action_masks()."""
    if "action_masks" in info and "action_mask" not in info and not method:
        raise ValueError('info has "action_masks": the name is "action_mask", as in Gymnasium')
    return info.get("action_mask")


def _not_gymnasium(who, call, result, count):
    there = "%d results" % len(result) if isinstance(result, tuple) else "a %s" % type(result).__name__
    five = "obs, reward, terminated, truncated, info" if count == 5 else "obs, info"
    return ValueError(
        "%s: %s() returns %s, not the %d of Gymnasium: %s (the package shimmy wraps environments of the old Gym)"
        % (who, call, there, count, five)
    )


def _reset(env, who, **how):
    """env.reset(), as Gymnasium has it."""
    try:
        result = env.reset(**how)
    except TypeError as error:
        if "reset() got an unexpected keyword" not in str(error):
            raise
        raise ValueError("%s: %s; Gymnasium's has reset(seed=None, options=None)" % (who, error)) from None
    if not isinstance(result, tuple) or len(result) != 2 or not hasattr(result[1], "get"):
        raise _not_gymnasium(who, "reset", result, 2)
    return result


class _Worlds:
    """n environments side by side, with arrays for what the library is told of a step. reset() and step() fill them."""

    def __init__(self, env, n, observations, actions, name):
        self.env, self.n, self.observations, self.actions, self.name = env, n, observations, actions, name
        self.obs = np.zeros((n, observations.size), np.float32)
        self.final_obs = np.zeros((n, observations.size), np.float32)
        self.reward = np.zeros(n, np.float32)
        self.terminated = np.zeros(n, np.bool_)
        self.truncated = np.zeros(n, np.bool_)
        self.mask = None  # (n, options) once an environment has told one
        self.choices, self.numbers = actions.buffers(n)
        self.infos = []
        self.begun = []  # those that began an episode after the step, where they do so by a call of their own
        self.in_reset = None  # (n,) those whose last step was a reset, where there are such

    def shares(self, other):
        """They have an environment in common."""
        each = lambda worlds: _distinct(worlds.env if isinstance(worlds.env, list) else [worlds.env])
        return bool(each(self) & each(other))

    def put_mask(self, i, mask):
        """mask: an array, or one for each choice, of environment i."""
        mask = np.concatenate([np.ravel(m) for m in mask]) if isinstance(mask, (tuple, list)) else np.ravel(mask)
        if mask.size != self.actions.options:
            raise ValueError(
                "environment %d: the mask has %d numbers, the actions have %d options"
                % (i, mask.size, self.actions.options)
            )
        if self.mask is None:
            self.mask = np.ones((self.n, self.actions.options), np.uint8)
        self.mask[i] = mask != 0

    def see(self, i, obs, row):
        """The observation of environment i into its row."""
        try:
            self.observations.one(obs, row)
        except _Unfit as error:
            raise ValueError("environment %d: %s" % (i, error)) from None

    def take(self, name, given):
        """Rewards, or whether episodes end, of all environments: a number of each."""
        try:
            array = np.asarray(given)
        except ValueError:  # numbers and arrays of one number
            array = np.empty(0, object)
        to = getattr(self, name)
        if array.shape != to.shape or array.dtype.kind not in "biuf":
            given = given if hasattr(given, "__len__") else [given]
            if len(given) != self.n:
                raise ValueError("%s has %d numbers, there are %d environments" % (name, len(given), self.n))
            array = [self._number(i, name, one) for i, one in enumerate(given)]
        to[...] = array

    @staticmethod
    def _number(i, name, given):
        if np.size(given) != 1 or np.asarray(given).dtype.kind not in "biuf":
            raise ValueError("environment %d: %s is %s, not a number" % (i, name, repr(given)[:60]))
        return np.ravel(given)[0]


class _List(_Worlds):
    """Environments that are stepped one after another. An episode's end and the next one's begin are one step."""

    def __init__(self, envs, *rest):
        super().__init__(envs, len(envs), *rest)
        self.rows = [self.obs[i : i + 1] for i in range(self.n)]
        self.final_rows = [self.final_obs[i : i + 1] for i in range(self.n)]
        self.flat = self.observations.plain and len(self.observations.space.shape) == 1
        self.steps = [env.step for env in envs]
        self.many_at_once = self.actions.kind == "Discrete"
        self.masks = [_method(env, "action_masks") for env in envs]

    def _info(self, i, info):
        mask = _mask_of(info, self.masks[i])
        if mask is None and self.masks[i]:
            mask = np.asarray(self.masks[i]())
        if mask is not None and self.actions.options:
            self.put_mask(i, mask)
        elif self.mask is not None:
            self.mask[i] = 1

    def reset(self, seed):
        for i, env in enumerate(self.env):
            obs, info = _reset(env, "environment %d" % i, seed=None if seed is None else seed + i)
            self.see(i, obs, self.rows[i])
            self._info(i, info)
        self.infos = [{} for _ in self.env]

    def step(self):
        actions = self.choices[:, 0].tolist() if self.many_at_once else self.actions.many(self.choices, self.numbers)
        start = self.actions.start if self.many_at_once else None
        obs_of, rewards, ends, cuts, flat = [], [], [], [], self.flat
        for i, step in enumerate(self.steps):
            result = step(actions[i] + start if start else actions[i])
            try:
                obs, reward, terminated, truncated, info = result
            except (TypeError, ValueError):
                raise _not_gymnasium("environment %d" % i, "step", result, 5) from None
            if terminated or truncated:
                self.see(i, obs, self.final_rows[i])
                self.infos[i] = info
                obs, info = _reset(self.env[i], "environment %d" % i)
            else:
                self.infos[i] = info
            if flat:
                obs_of.append(obs)
            else:
                self.see(i, obs, self.rows[i])
            if info or self.mask is not None:
                self._info(i, info)
            rewards.append(reward)
            ends.append(terminated)
            cuts.append(truncated)
        if flat:
            self._see_all(obs_of)
        self.take("reward", rewards)
        self.take("terminated", ends)
        self.take("truncated", cuts)

    def _see_all(self, obs_of):
        """Plain rows of numbers at once."""
        try:
            array = np.asarray(obs_of)
        except ValueError:
            array = np.empty(0, object)
        if array.shape == self.obs.shape and array.dtype.kind in "biuf":
            self.obs[...] = array
        else:  # one of them is wrong
            for i, obs in enumerate(obs_of):
                self.see(i, obs, self.rows[i])


class _Vector(_Worlds):
    """A vector environment of Gymnasium."""

    def __init__(self, env, *rest):
        super().__init__(env, env.num_envs, *rest)
        mode = env.metadata.get("autoreset_mode", "NextStep")  # Gymnasium 1.0 has this one alone
        mode = {"NEXT_STEP": "NextStep", "SAME_STEP": "SameStep", "DISABLED": "Disabled"}.get(mode, mode)
        self.mode = str(getattr(mode, "value", mode))
        if self.mode not in ("NextStep", "SameStep", "Disabled"):
            raise ValueError("the vector environment's autoreset_mode is %r, none of Gymnasium's" % (mode,))
        self.over = bytes(self.n)  # by the latest step
        self.masks = [_method(one, "action_masks") for one in getattr(getattr(env, "unwrapped", env), "envs", ())]
        self.masks = self.masks if all(self.masks) else []

    def _see(self, obs, rows):
        try:
            self.observations.write(obs, rows)
        except _Unfit as error:
            raise ValueError("the vector environment of %d: %s" % (self.n, error)) from None

    def _info(self, info):
        mask = _mask_of(info, self.masks)
        if mask is None and self.masks:
            mask, info = [np.asarray(m()) for m in self.masks], {}
        if mask is not None and self.actions.options:
            given = info.get("_action_mask")
            rows = range(self.n) if given is None else np.flatnonzero(given)
            if self.mask is not None:
                self.mask[...] = 1
            for i in rows:
                self.put_mask(i, [m[i] for m in mask] if isinstance(mask, tuple) else mask[i])
        elif self.mask is not None:
            self.mask[...] = 1

    def reset(self, seed):
        obs, info = _reset(self.env, "the vector environment", seed=seed)
        self._see(obs, self.obs)
        self._info(info)
        self.over = bytes(self.n)

    def step(self):
        before = self.over
        result = self.env.step(self.actions.many(self.choices, self.numbers))
        try:
            obs, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise _not_gymnasium("the vector environment", "step", result, 5) from None
        self._see(obs, self.obs)
        self.take("reward", reward)
        self.take("terminated", terminated)
        self.take("truncated", truncated)
        self.infos = info
        if info or self.mask is not None:
            self._info(info)
        self.begun = ()
        over = (self.terminated | self.truncated).tobytes()
        if self.mode == "NextStep":
            self.in_reset = before if 1 in before else None
            self.over = over
        elif 1 in over:
            rows = [i for i, end in enumerate(over) if end]
            if self.mode == "SameStep":
                self._final(info, rows)
            else:
                self._begin(rows)

    def _final(self, info, rows):
        last = info.get("final_obs", info.get("final_observation"))
        if last is None:
            raise ValueError('an episode has ended, but info has no "final_obs", as autoreset_mode SameStep needs it')
        for i in rows:
            one = {k: v[i] for k, v in last.items() if k[:1] != "_"} if isinstance(last, dict) else last[i]
            self.see(i, one, self.final_obs[i : i + 1])

    def _begin(self, rows):
        """After a step, in which these have ended: obs keeps their last observations until begin() is called."""
        chosen = np.zeros(self.n, np.bool_)
        chosen[rows] = True
        self.begun, self._chosen = np.array(rows, np.int32), chosen

    def begin(self):
        """Resets the environments of `begun`; returns their observations, and masks or None."""
        obs, info = _reset(self.env, "the vector environment", options={"reset_mask": self._chosen})
        rows = np.empty_like(self.obs)
        self._see(obs, rows)
        self.obs[self._chosen] = rows[self._chosen]
        if info or self.mask is not None:
            held = self.mask.copy() if self.mask is not None else None
            self._info(info)
            if held is not None:  # those that were not reset keep theirs
                self.mask[~self._chosen] = held[~self._chosen]
        return self.obs[self.begun], None if self.mask is None else self.mask[self.begun]


def _makes(env):
    """It is a class or a function that makes an environment."""
    return isinstance(env, type) or (callable(env) and not hasattr(env, "reset"))


class _Envs(list):
    """Environments side by side, as callbacks of Stable-Baselines3 see them. A single one is also itself."""

    num_envs = property(len)

    def __getattr__(self, name):
        if len(self) != 1:
            raise AttributeError("a list of %d environments has no %s" % (len(self), name))
        return getattr(self[0], name)


def _distinct(envs):
    """What there is within their wrappers."""
    return {id(getattr(e, "unwrapped", e)) for e in envs}


def _worlds(env, n_envs, convolve, byte_scale):
    """Environments, whatever they were given as."""
    if n_envs is not None:
        n_envs = _whole("n_envs", n_envs, 1)
    if isinstance(env, str) or _makes(env):
        env = make_vec_env(env, n_envs or 1)
    if isinstance(env, (list, tuple)):
        env = [e() if _makes(e) else e for e in env]
        if not env:
            raise ValueError("the list of environments is empty")
        if len(_distinct(env)) < len(env):
            raise ValueError("the list has the same environment twice: each needs an object of its own")
        for other in env[1:]:
            for space in ("observation_space", "action_space"):
                if getattr(other, space) != getattr(env[0], space):
                    raise ValueError("the environments of the list have different values of %s" % space)
    elif not hasattr(env, "reset") or not hasattr(env, "step"):
        raise ValueError("%r is neither an environment nor the name of one" % (env,))
    elif hasattr(env, "step_async") and not hasattr(env, "single_observation_space"):
        raise ValueError(
            "this is a vector environment of Stable-Baselines3: give Gymnasium's environments, or their names"
        )
    vector = hasattr(env, "num_envs") and hasattr(env, "single_observation_space")
    env = env if vector or isinstance(env, list) else [env]
    first = env if vector else env[0]
    count = env.num_envs if vector else len(env)
    if n_envs is not None and n_envs != count:
        raise ValueError("n_envs is %s, but there are %d environments" % (n_envs, count))
    spec = getattr(first, "spec", None)
    observations = _Observations(
        first.single_observation_space if vector else first.observation_space, convolve, byte_scale
    )
    actions = _Actions(first.single_action_space if vector else first.action_space)
    return (_Vector if vector else _List)(env, observations, actions, getattr(spec, "id", None))


# --- the class -----------------------------------------------------------------------------------------------------


class PPO:
    """Proximal Policy Optimization.

    policy: "MlpPolicy"; "CnnPolicy" for a picture; "MultiInputPolicy" for a Dict, with or without a picture. Convolutions
    are those of DQN for pictures of 36 pixels or more (conv="32x8x4,64x4x2,64x3x1", or kernels a little larger so that no
    pixel is left over), else "16x2x1,32x2x1,64x2x1"; after them is a layer of 512 for both heads.
    env: a name, an environment, a list of them, functions that make them, or a vector environment of Gymnasium.
    n_envs: how many, where env is a name or a function.
    learning_rate, clip_range, ent_coef: numbers, or functions of the share of the training that remains, 1 to 0.
    seed: of all random numbers, also of the environments; None: another one in each run (then it is in model.seed).
    byte_scale: what a picture's bytes are multiplied by; None: 1/255.
    csv, tensorboard_log: a file and a folder for logs with Stable-Baselines3's keys.
    verbose: 1: a line of progress, and what seems to go wrong.
    Further keywords are settings of ppo.h; preset="a2c" and its like set several.
    """

    def __init__(
        self,
        policy,
        env,
        learning_rate=3e-4,
        n_steps=2048,
        batch_size=64,
        n_epochs=10,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        clip_range_vf=None,
        normalize_advantage=True,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        use_sde=False,
        sde_sample_freq=-1,
        target_kl=None,
        tensorboard_log=None,
        policy_kwargs=None,
        verbose=0,
        seed=None,
        device="auto",
        n_envs=None,
        byte_scale=None,
        csv=None,
        preset=None,
        **more
    ):
        given = {
            "learning_rate": learning_rate,
            "n_steps": n_steps,
            "batch_size": batch_size,
            "n_epochs": n_epochs,
            "gamma": gamma,
            "gae_lambda": gae_lambda,
            "clip_range": clip_range,
            "clip_range_vf": clip_range_vf,
            "normalize_advantage": normalize_advantage,
            "ent_coef": ent_coef,
            "vf_coef": vf_coef,
            "max_grad_norm": max_grad_norm,
            "use_sde": use_sde,
            "sde_sample_freq": sde_sample_freq,
            "target_kl": target_kl,
        }
        if policy not in _POLICIES:
            hint = "; for memory there is the setting recurrent" if "Lstm" in str(policy) else ""
            raise ValueError("policy is %r, none of %s%s" % (policy, ", ".join(_POLICIES), hint))
        if str(device) not in ("auto", "cpu"):
            raise ValueError("device is %r: policies are trained on the processor" % (device,))
        self.policy_class, self.verbose = policy, verbose
        self.tensorboard_log, self.csv, self.byte_scale = tensorboard_log, csv, byte_scale
        self.seed = int.from_bytes(os.urandom(4), "little") if seed is None else _whole("seed", seed)
        own = _of_policy_kwargs(policy_kwargs)
        for name in sorted(set(own) & set(more)):
            raise ValueError("%s is given twice: as itself, and by policy_kwargs" % name)
        own.update(more)
        for name, ours in _SAME:
            if ours in own and given[name] != inspect.signature(PPO).parameters[name].default:
                raise ValueError("%s and %s are the same setting: give one of them" % (name, ours))
        convolve = policy == "CnnPolicy" or "conv" in own or policy == "MultiInputPolicy"
        if "num_envs" in own:
            n_envs = own.pop("num_envs")
        self._worlds = _worlds(env, n_envs, convolve, byte_scale)
        shape = self._worlds.observations.shape
        if policy == "CnnPolicy" and not shape:
            raise ValueError("CnnPolicy needs a picture: a Box of three dimensions")
        self._config = _Config()
        self._config.put("learning_rate_schedule", "constant")
        if preset is not None:
            _check(_lib().ppo_flat_config_preset(self._config.handle, _text(str(preset))))
            usual = inspect.signature(PPO).parameters  # what was not given is the preset's
            given = {name: value for name, value in given.items() if value != usual[name].default}
        if shape:
            own = dict(_CNN, **own)
            if "conv" not in own:
                own["conv"] = _convolutions(shape)
        _put_all(self._config, dict(given, **own))
        self._config.put("seed", self.seed)
        self._config.put("num_envs", self._worlds.n)
        self._description = None
        self._agent = None
        self._describe()
        self._agent = _created(
            _lib().ppo_agent_create, self._description, self._config.handle, check=self._config.check
        )
        self._begin()

    def _begin(self):
        """What belongs to an agent that was made or loaded."""
        self.num_timesteps = 0
        self.figures = {}  # of the latest iteration, in the names of ppo_progress
        self._learned = 0  # calls of learn()
        self._training = False  # learn() runs
        self.logger = _Logger()
        self._before = None  # figures at the end of the training that the latest one continued
        self._rng = np.zeros(11, np.uint32)
        _lib().ppo_flat_rng(self.seed, 0, _at(self._rng))
        sizes = np.zeros(5, np.int32)
        _check(_lib().ppo_flat_agent(self._agent, _at(sizes), None, None, None, 0, None))
        self._width = int(sizes[4])

    def _describe(self):
        """Tells the library what the environments are like."""
        worlds = self._worlds
        shape = None if worlds.observations.shape is None else np.array(worlds.observations.shape, np.int32)
        description = _created(
            _lib().ppo_flat_env_create,
            _name_with_scale(worlds.name, self.byte_scale),
            worlds.observations.size,
            0,
            _at(shape),
            worlds.observations.byte_scale,
            _text(worlds.actions.text),
        )
        if self._description:
            _lib().ppo_flat_env_free(self._description)
        self._description = description

    def __reduce_ex__(self, protocol):  # what copy and pickle call: two owners of a handle would free it twice
        raise TypeError("a PPO model cannot be copied or pickled: use save() and PPO.load()")

    def __del__(self):
        if getattr(self, "_agent", None):
            _lib().ppo_agent_free(self._agent)
        if getattr(self, "_description", None):
            _lib().ppo_flat_env_free(self._description)

    # -- environments

    @property
    def env(self):
        env = self._worlds.env if self._worlds else None
        return env[0] if isinstance(env, list) and len(env) == 1 else env

    def get_env(self):
        """The vector environment, or the list of environments, which has num_envs, too."""
        env = self._worlds.env if self._worlds else None
        return _Envs(env) if isinstance(env, list) else env

    def dump_logs(self):
        """Writes what callbacks recorded. Stable-Baselines3's LogEveryNTimesteps calls it."""
        self.logger.dump(self.num_timesteps)

    def get_vec_normalize_env(self):
        """None: normalization is the setting normalize_obs. Stable-Baselines3's EvalCallback asks."""
        return None

    @property
    def n_envs(self):
        return self._worlds.n if self._worlds else 0

    @property
    def observation_space(self):
        return self._observations.space

    @property
    def action_space(self):
        return self._actions.space

    @property
    def settings(self):
        """All settings of ppo.h, as texts."""
        return {name: self._config.get(name) for name in _all_settings()}

    def set_env(self, env, n_envs=None):
        """Other environments, with the same spaces, for the next learn()."""
        if self._training:
            raise ValueError("set_env() while learn() runs: call it afterwards")
        self._worlds = self._fitting(env, n_envs)
        self._describe()
        self._config.put("num_envs", self._worlds.n)

    def _fitting(self, env, n_envs=None):
        """Environments that the policy can act in: the library reads and writes arrays of the policy's sizes."""
        worlds = _worlds(env, n_envs, self._convolves, self.byte_scale)
        sizes, space = np.zeros(5, np.int32), ctypes.create_string_buffer(4096)
        _check(_lib().ppo_flat_agent(self._agent, _at(sizes), None, space, None, len(space), None))
        if worlds.observations.size != sizes[0]:
            raise ValueError(
                "the policy sees %d numbers, the environment has %d" % (sizes[0], worlds.observations.size)
            )
        if worlds.actions.text != space.value.decode():
            raise ValueError(
                "the policy's actions are %s, the environment's %s" % (space.value.decode(), worlds.actions.text)
            )
        if self._worlds is not None and worlds.observations.shape != self._worlds.observations.shape:
            raise ValueError(
                "the policy's picture is %s, the environment's %s"
                % (self._worlds.observations.shape, worlds.observations.shape)
            )
        return worlds

    @property
    def _convolves(self):
        return self._config.get("conv") != "none"

    @property
    def _observations(self):
        return self._worlds.observations if self._worlds else self._loaded[0]

    @property
    def _actions(self):
        return self._worlds.actions if self._worlds else self._loaded[1]

    # -- training

    def learn(
        self,
        total_timesteps,
        callback=None,
        log_interval=1,
        tb_log_name="PPO",
        reset_num_timesteps=True,
        progress_bar=False,
    ):
        """Trains for total_timesteps steps of all environments together, and returns the model. The environments begin new
        episodes. reset_num_timesteps: False continues the counts of steps in num_timesteps and in the logs of the learn()
        before. True begins anew at 0: a csv file that is there is renamed, progress.csv to progress.1.csv or the next
        number that is free, and TensorBoard gets a folder of the next number, PPO_2 after PPO_1.

        callback: a function of (locals, globals), called after every step of all environments, or an object with some of
        the methods on_training_start(locals, globals), on_rollout_start(), on_step(), on_rollout_end(), on_training_end(),
        whose attributes model, locals and num_timesteps are set; or a list of these. The training ends when a function
        or on_step() returns False. locals has "self", "infos", "rewards", "dones" and "actions" of the step, and
        "total_timesteps", the num_timesteps at which the training ends.
        """
        if self._worlds is None:
            raise ValueError("there is no environment: PPO.load(path, env=...) or set_env()")
        if self._training:
            raise ValueError("learn() while learn() runs: a callback cannot train the model that calls it")
        library, worlds, config = _lib(), self._worlds, self._config
        for name, (schedule, indices) in _SCHEDULED.items():
            if config.get(schedule) == "custom" and not set(indices.values()) <= set(config.schedules):
                raise ValueError(
                    "%s was a function, which a policy's file does not have: pass %s=, a number or a function, to PPO.load()"
                    % (name, name)
                )
        config.failed = None
        config.put("total_steps", _whole("total_timesteps", total_timesteps, 1))
        config.put("seed", (self.seed + self._learned) % 2**64)
        log = trainer = None
        if reset_num_timesteps or not self.num_timesteps:
            self.num_timesteps, self._before = 0, None
        else:
            self._before = self._counted()
        self.figures = {}  # of this training
        calls = _Callbacks(callback, self)
        calls.locals.update(total_timesteps=self.num_timesteps + int(total_timesteps), tb_log_name=tb_log_name)
        self._training = True
        try:
            trainer = _created(
                library.ppo_trainer_create, self._description, config.handle, self._agent, check=config.check
            )
            if self.csv or self.tensorboard_log:
                tensorboard = self.tensorboard_log and _run_of(self.tensorboard_log, tb_log_name, self._before is None)
                paths = [None if p is None else _path(p) for p in (self.csv, tensorboard)]
                if self.csv and self._before is None:
                    _keep(os.fsdecode(self.csv))
                log = _created(library.ppo_log_open, *paths, 0 if self._before is None else self.num_timesteps)
                self.logger.log = log
            worlds.reset(self.seed % 2**31 if not self._learned else None)
            self._learned += 1
            self._train(trainer, worlds, calls, log, self.verbose or progress_bar)
        finally:
            self._training, self.logger.log = False, None
            library.ppo_trainer_free(trainer)
            if log:
                library.ppo_log_close(log)
        return self

    def _train(self, trainer, worlds, calls, log, verbose):
        library, n, learned = _lib(), worlds.n, ctypes.c_int()
        observe, act, learn = library.ppo_trainer_observe_many, library.ppo_trainer_act_many, library.ppo_flat_learn
        obs, final_obs, reward = _at(worlds.obs), _at(worlds.final_obs), _at(worlds.reward)
        terminated, truncated = _at(worlds.terminated), _at(worlds.truncated)
        choices, numbers, to_learned = _at(worlds.choices), _at(worlds.numbers), ctypes.byref(learned)
        same_step = not isinstance(worlds, _Vector) or worlds.mode == "SameStep"
        last = final_obs if same_step else None
        line = _Line(verbose)
        _check(observe(trainer, n, None, obs, _at(worlds.mask), None, None, None, None))
        calls.start()
        while not library.ppo_trainer_done(trainer):
            _check(act(trainer, n, None, choices, numbers))
            worlds.step()
            _check(observe(trainer, n, None, obs, _at(worlds.mask), reward, terminated, truncated, last))
            self.num_timesteps += n
            if calls and not calls.step(worlds):
                break
            if not same_step and len(worlds.begun):
                rows, mask = worlds.begin()
                _check(observe(trainer, len(rows), _at(worlds.begun), _at(rows), _at(mask), None, None, None, None))
            while True:
                status = learn(trainer, _LEARN_MS, to_learned)
                if self._config.failed:
                    raise self._config.failed
                _check(status)
                if learned.value or not library.ppo_trainer_ready(trainer):
                    break
            if learned.value:
                self._take_figures(trainer)
                if log:
                    _check(library.ppo_flat_log(log, trainer, _at(self._before)))
                self.logger.dump(self.num_timesteps)
                line.show(self.figures, library.ppo_flat_warning(trainer).decode())
                calls.rollout()
        calls.end()
        line.end()

    def _take_figures(self, trainer):
        names = _figure_names()
        values = np.zeros(len(names))
        _check(_lib().ppo_flat_figures(trainer, _at(values)))
        self.figures = dict(zip(names, values.tolist()))

    def _counted(self):
        """The figures of the trainings until now, of which the next one is the continuation."""
        values = np.array([self.figures.get(name, 0.0) for name in _figure_names()])
        if self._before is not None:
            values += self._before  # counts and seconds alone are read
        values[_figure_names().index("steps")] = self.num_timesteps
        return values

    # -- acting

    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        """The actions for one observation or an array of them, and the next state of a recurrent policy (else None): hand
        it in with the next call. episode_start: True for those whose episode begins; action_masks: 0 for illegal ones.
        """
        actions = self._actions
        count, rows = self._rows(observation)
        n = len(rows)
        if action_masks is not None and actions.options:
            if np.shape(action_masks) not in ((n, actions.options),) + (() if count else ((actions.options,),)):
                raise ValueError("action_masks has shape %s, not %s" % (np.shape(action_masks), (n, actions.options)))
            action_masks = np.ascontiguousarray(np.reshape(action_masks, (n, actions.options)), np.bool_).view(np.uint8)
        else:
            action_masks = None
        if self._width:
            state = self._state(state, n)
            if np.size(episode_start) not in (1, n):
                raise ValueError("episode_start has %d values, there are %d observations" % (np.size(episode_start), n))
            if episode_start is not None:
                state[np.broadcast_to(np.ravel(episode_start).astype(np.bool_), n)] = 0
        else:
            state = None
        choices, numbers = actions.buffers(n)
        rng = None if deterministic else _at(self._rng)
        _check(
            _lib().ppo_flat_act(
                self._agent, n, _at(rows), _at(action_masks), _at(state), rng, _at(choices), _at(numbers)
            )
        )
        action = actions.many(choices, numbers)
        return action if count else action[0], state

    def _rows(self, observation):
        """How many observations there are, 0 for one without a first dimension, and a row of numbers for each."""
        observations = self._observations
        count = observations.count(observation)
        rows = np.empty((count or 1, observations.size), np.float32)
        (observations.write if count else observations.one)(observation, rows)
        return count, rows

    def observation_rows(self, observation):
        """What an exported policy takes for an observation or an array of them: float32, (observations, numbers of each).
        layout() says what the numbers are."""
        return self._rows(observation)[1]

    def actions_of(self, answers):
        """The environment's actions for what an exported policy answers, an array of them: its output "actions", or what
        NAME_predict() gives, of one observation or several."""
        actions = self._actions
        given = np.asarray(answers)
        if given.dtype.kind not in "biuf" or not given.size or given.size % actions.width:
            raise ValueError(
                "answers are of shape %s and %s, not %d numbers for each action"
                % (given.shape, given.dtype, actions.width)
            )
        rows = given.reshape(-1, actions.width)
        if actions.kind == "Box":
            return actions.many(None, rows.astype(np.float32))
        most = actions.nvec()
        if not ((rows >= 0) & (rows < most) & (rows == np.floor(rows))).all():
            raise ValueError("answers are %s, of choices from 0 to %s" % (repr(given)[:60], (most - 1).tolist()))
        return actions.many(rows.astype(np.int32), None)

    def layout(self):
        """What an exported policy sees and answers, as a text: the numbers of a row, and what is done with an answer."""
        return "\n".join(self._observations.layout() + [self._actions.layout()])

    def _state(self, state, n):
        """The state of n episodes, as an array of its own; None: they begin."""
        if state is None:
            return np.zeros((n, self._width), np.float32)
        given = "a tuple" if isinstance(state, tuple) else "of shape %s" % (np.shape(state),)
        if isinstance(state, tuple) or np.shape(state) != (n, self._width):
            raise ValueError(
                "state is %s, not the array of shape %s that predict() returns" % (given, (n, self._width))
            )
        return np.array(state, np.float32)

    # -- files

    def save(self, path):
        """Writes the policy, its statistics and settings, in ppo.h's format (.safetensors is added to a bare name)."""
        name = os.path.basename(os.fsdecode(path))
        ending = os.path.splitext(name)[1].lower()
        if ending in _ELSEWHERE:
            raise ValueError(
                'save() writes ppo.h\'s policies, which end in .safetensors, not "%s"%s' % (name, _ELSEWHERE[ending])
            )
        _check(_lib().ppo_agent_save(self._agent, _path(_policy_path(path))))

    def export_onnx(self, path, names="standard", value=False, mask=False):
        """Writes the policy as an ONNX model, for ONNX Runtime, browsers and Unity. Its input "input" takes rows of
        numbers, not normalized by normalize_obs; its outputs are "actions", the most likely ones, and "logits", or "mean"
        and "log_std". The policy knows nothing of the environment's spaces, so these are not predict()'s:

            rows = model.observation_rows(obs)                      # a picture first, as channels, height, width, / 255
            answers = session.run(["actions"], {"input": rows})[0]  # choices from 0 on; ranges of their own are -1 .. 1
            action = model.actions_of(answers)[0]                   # as predict(obs, deterministic=True)[0]

        layout() says what such a row and an answer are, for a program that has no ppo.py. names: "ml-agents" has those
        that Unity expects; value: the critic's value is an output, too; mask: there is an input for illegal actions.
        examples/companions/ppo_onnx.h lists them."""
        if names not in _ONNX_NAMES:
            raise ValueError("names is %r, none of %s" % (names, ", ".join(_ONNX_NAMES)))
        options = (ctypes.c_int * 3)(_ONNX_NAMES.index(names), bool(value), bool(mask))  # a ppo_onnx_options
        _check(_lib().ppo_export_onnx(self._agent, _path(path), options))

    def export_c(self, path, name="policy"):
        """Writes the policy as a C header for firmware, which needs nothing else: int NAME_predict(const float *obs), and
        what examples/companions/ppo_export.h lists. obs and the answer are those of export_onnx(), not an environment's:
        observation_rows() and actions_of() lead from one to the other, layout() says how."""
        _check(_lib().ppo_export_c(self._agent, _text(str(name)), _path(path)))

    @classmethod
    def load(
        cls, path, env=None, n_envs=None, verbose=0, seed=None, byte_scale=None, csv=None, tensorboard_log=None, **more
    ):
        """A policy that save(), build/train or a program with ppo.h has written. The file has no spaces: without env=,
        predict() takes and answers what an exported policy does, see export_onnx(). Rows of numbers are observed, a
        picture first, as channels, height, width, divided by 255, and of one choice among several a 1 among 0; choices
        begin at 0, and a Box whose numbers have ranges of their own is -1 .. 1. With env= these are the environment's.
        byte_scale: None is that of the training. Further keywords are settings that change, none of the network's."""
        self = cls.__new__(cls)
        self._agent = self._description = self._worlds = None
        self.policy_class, self.verbose, self.byte_scale = "MlpPolicy", verbose, byte_scale
        self.tensorboard_log, self.csv = tensorboard_log, csv
        file = _path(_policy_path(path))
        _refuse_zip(_policy_path(path) if os.path.exists(file) else os.fsdecode(path) + ".zip")
        self._agent = _created(_lib().ppo_agent_load, file, None)
        self._config = _Config()
        sizes, range_ = np.zeros(5, np.int32), np.zeros(2, np.float32)
        space, name = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(4096)
        _check(
            _lib().ppo_flat_agent(self._agent, _at(sizes), _at(range_), space, name, len(space), self._config.handle)
        )
        if byte_scale is None:
            self.byte_scale = _scale_of_name(name.value)
        self.seed = (int(self._config.get("seed")) + 1) % 2**64 if seed is None else _whole("seed", seed)
        _put_all(self._config, more)
        self._loaded = _Observations(_Numbers(int(sizes[0])), False), _Actions(_space_of(space.value.decode()))
        self._begin()
        if env is not None:
            self.set_env(env, n_envs)
        return self


_ONNX_NAMES = ("standard", "ml-agents")  # by ppo_onnx_names
# What save() does not write, by the ending of its name.
_ELSEWHERE = {
    ".onnx": ": export_onnx() writes that",
    ".h": ": export_c() writes that",
    ".zip": ", the format of Stable-Baselines3, whose CheckpointCallback writes it, too: ppo.py has its own",
    ".pkl": ", a pickle",
    ".pt": ", a file of PyTorch",
    ".pth": ", a file of PyTorch",
}


def _keep(path):
    """Renames a file that is there, so that another one can begin. What is no file, such as /dev/stdout, stays."""
    if os.path.isdir(path):
        raise IsADirectoryError("csv is %r, a folder: it must be the name of a file" % path)
    stem, ending = os.path.splitext(path)
    number = 1
    while os.path.exists("%s.%d%s" % (stem, number, ending)):
        number += 1
    if os.path.isfile(path):
        os.rename(path, "%s.%d%s" % (stem, number, ending))


def _run_of(folder, name, new):
    """The folder of a run for TensorBoard, as in Stable-Baselines3: NAME_1, or the number after the latest one."""
    there = os.listdir(folder) if os.path.isdir(folder) else []
    numbers = [int(n[len(name) + 1 :]) for n in there if n.startswith(name + "_") and n[len(name) + 1 :].isdigit()]
    return os.path.join(folder, "%s_%d" % (name, max(numbers, default=0) + 1 if new else max(numbers, default=1)))


def _policy_path(path):
    path = os.fsdecode(path)
    return path if os.path.splitext(path)[1] else path + ".safetensors"


def _refuse_zip(path):
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read(4) == b"PK\3\4":
                raise ValueError(
                    "%s is a model of Stable-Baselines3: `python convert.py %s -o policy.safetensors` makes a policy of it, "
                    "with examples/python/convert.py of ppo.h" % (path, path)
                )


@functools.lru_cache(None)
def _figure_names():
    names = []
    while _lib().ppo_flat_figure(len(names)):
        names.append(_lib().ppo_flat_figure(len(names)).decode())
    return names


def _name_with_scale(name, byte_scale):
    """What a policy's file has as the environment's name, at most 63 bytes: a scale of one's own is part of it."""
    scale = "" if byte_scale is None else ", bytes * %.9g" % byte_scale
    return _text((name or "").encode()[: 63 - len(scale)].decode(errors="ignore") + scale) or None


def _scale_of_name(name):
    found = re.search(rb", bytes \* (\d+(?:\.\d+)?(?:e[+-]?\d+)?)$", name)
    return float(found[1]) if found else None


def _space_of(text):
    """A space by its text in a file."""
    kind, rest = text.split(" ", 1)
    space = type(
        {"discrete": "Discrete", "box": "Box", "multi-discrete": "MultiDiscrete", "multi-binary": "MultiBinary"}[kind],
        (),
        {},
    )()
    if kind == "discrete":
        space.n, space.shape, space.dtype = int(rest), (), np.dtype(np.int64)
    elif kind == "multi-discrete":
        space.nvec = np.array([int(n) for n in rest.split(",")])
        space.shape, space.dtype = space.nvec.shape, np.dtype(np.int64)
    elif kind == "multi-binary":
        space.n, space.shape, space.dtype = int(rest), (int(rest),), np.dtype(np.int8)
    else:
        n, low, high = rest.split()
        space.shape, space.dtype = (int(n),), np.dtype(np.float32)
        space.low, space.high = np.full(int(n), low, np.float32), np.full(int(n), high, np.float32)
    return space


class _Logger:
    """model.logger, where callbacks record figures by name, as in Stable-Baselines3. They go to TensorBoard."""

    def __init__(self):
        self.name_to_value, self.log, self._hidden = {}, None, set()

    def record(self, key, value, exclude=None):
        self.name_to_value[key] = value
        hide = self._hidden.add if "tensorboard" in (exclude or ()) else self._hidden.discard
        hide(key)

    def dump(self, step=0):
        for key, value in self.name_to_value.items():
            if self.log and key not in self._hidden and np.isscalar(value) and not isinstance(value, str):
                _check(_lib().ppo_log_scalar(self.log, _text(key), float(value), int(step)))
        self.name_to_value.clear()


class _Callbacks:
    """What learn() was given as its callback."""

    METHODS = ("on_training_start", "on_rollout_start", "on_step", "on_rollout_end", "on_training_end")

    def __init__(self, callback, model):
        self.model, self.locals = model, {"self": model}
        self.functions, self.objects = [], []
        several = isinstance(callback, (list, tuple))
        for c in callback if several else [] if callback is None else [callback]:
            if isinstance(c, type):
                raise ValueError("callback is the class %s, not an object of it: %s()" % (c.__name__, c.__name__))
            if any(hasattr(c, name) for name in self.METHODS):
                self.objects.append(c)
            elif hasattr(c, "_on_step"):
                raise ValueError(
                    "callback %r has _on_step(), but no on_step(): name it so, or derive from Stable-Baselines3's "
                    "BaseCallback" % (c,)
                )
            elif callable(c):
                self.functions.append(c)
            else:
                raise ValueError("callback %r is neither a function nor has it a method like on_step()" % (c,))

    def __bool__(self):
        return bool(self.functions or self.objects)

    def _call(self, name, *arguments):
        for c in self.objects:
            if hasattr(c, name):
                getattr(c, name)(*arguments)

    def start(self):
        for c in self.objects:
            if hasattr(c, "init_callback"):  # Stable-Baselines3's
                c.init_callback(self.model)
            c.model, c.locals, c.num_timesteps = self.model, self.locals, self.model.num_timesteps
        self._call("on_training_start", self.locals, globals())
        self._call("on_rollout_start")

    def step(self, worlds):
        """False: a callback ends the training."""
        actions = worlds.choices if worlds.numbers is None else worlds.numbers
        self.locals["infos"], self.locals["rewards"], self.locals["actions"] = worlds.infos, worlds.reward, actions
        self.locals["dones"] = worlds.terminated | worlds.truncated
        goes_on = True
        for function in self.functions:
            goes_on = function(self.locals, globals()) is not False and goes_on
        for c in self.objects:
            c.num_timesteps = self.model.num_timesteps
            if hasattr(c, "on_step"):
                goes_on = c.on_step() is not False and goes_on
        return goes_on

    def rollout(self):
        self._call("on_rollout_end")
        self._call("on_rollout_start")

    def end(self):
        self._call("on_training_end")


class CheckpointCallback:
    """A callback that saves the policy after every save_freq steps of each environment, as
    save_path/NAME_PREFIX_STEPS_steps.safetensors, where STEPS is the model's num_timesteps."""

    def __init__(self, save_freq, save_path, name_prefix="rl_model", verbose=0):
        self.save_freq, self.calls = _whole("save_freq", save_freq, 1), 0
        self.save_path, self.name_prefix, self.verbose = os.fspath(save_path), str(name_prefix), verbose

    def on_training_start(self, locals_, globals_):
        os.makedirs(self.save_path, exist_ok=True)

    def on_step(self):
        self.calls += 1
        if self.calls % self.save_freq == 0:
            name = "%s_%d_steps.safetensors" % (self.name_prefix, self.num_timesteps)
            self.model.save(os.path.join(self.save_path, name))
            if self.verbose > 1:
                print("saved", name)


class _Line:
    """A line of progress on stderr: one that is written anew on a terminal, else one for each twentieth of the training."""

    def __init__(self, verbose):
        self.verbose, self.terminal, self.twentieth, self.warning = verbose, sys.stderr.isatty(), -1, ""

    def show(self, figures, warning):
        if not self.verbose:
            return
        steps, total = figures["steps"], figures["total_steps"]
        now = int(20 * steps / total)
        if self.terminal or now != self.twentieth:
            told = ("return", figures["mean_return"]) if figures["episodes"] else ("reward", figures["mean_reward"])
            left = int(figures["seconds_left"])
            text = "%9d/%d steps %8d/s  %s %8.2f  kl %.4f  entropy %6.3f  left %d:%02d" % (
                (steps, total, figures["steps_per_second"])
                + told
                + (figures["approx_kl"], figures["entropy"], left // 60, left % 60)
            )
            print(
                ("\r" if self.terminal else "") + text, end="" if self.terminal else "\n", file=sys.stderr, flush=True
            )
            self.twentieth = now
        if warning and warning != self.warning:
            print(("\n" if self.terminal else "") + "          " + warning, file=sys.stderr, flush=True)
        self.warning = warning

    def end(self):
        if self.verbose and self.terminal:
            print(file=sys.stderr)


def evaluate_policy(
    model,
    env=None,
    n_eval_episodes=10,
    deterministic=True,
    render=False,
    callback=None,
    reward_threshold=None,
    return_episode_rewards=False,
    warn=True,
    seed=None,
):
    """Plays episodes, by the most likely actions: the mean and the standard deviation of their returns, or the lists of
    returns and lengths. env: as for PPO; None: the model's own, whose episodes end by that. Each environment plays its
    share of the episodes, so that short ones do not count for more."""
    worlds = model._worlds if env is None else model._fitting(env)
    if worlds is None:
        raise ValueError("there is no environment")
    n_eval_episodes = _whole("n_eval_episodes", n_eval_episodes, 1)
    if model._training and worlds.shares(model._worlds):
        raise ValueError("evaluate_policy() while learn() runs needs an environment that the model does not train in")
    n, returns, lengths = worlds.n, [], []
    share = [(n_eval_episodes + i) // n for i in range(n)]
    total, length, played = np.zeros(n), np.zeros(n, int), [0] * n
    state = np.zeros((n, model._width), np.float32) if model._width else None
    rng = None if deterministic else _at(model._rng)
    worlds.reset(seed)
    while len(returns) < n_eval_episodes:
        _check(
            _lib().ppo_flat_act(
                model._agent,
                n,
                _at(worlds.obs),
                _at(worlds.mask),
                _at(state),
                rng,
                _at(worlds.choices),
                _at(worlds.numbers),
            )
        )
        worlds.step()
        if render:
            worlds.env[0].render() if isinstance(worlds.env, list) else worlds.env.render()
        waits = worlds.in_reset or bytes(n)
        for i in range(n):
            if waits[i]:
                if state is not None:
                    state[i] = 0
                continue
            total[i] += worlds.reward[i]
            length[i] += 1
            if not worlds.terminated[i] and not worlds.truncated[i]:
                continue
            if played[i] < share[i]:
                returns.append(float(total[i]))
                lengths.append(int(length[i]))
                played[i] += 1
            total[i] = length[i] = 0
            if state is not None:
                state[i] = 0
        if callback is not None:
            callback({"self": model, "infos": worlds.infos, "rewards": worlds.reward}, globals())
        if len(worlds.begun):
            worlds.begin()
    if reward_threshold is not None and np.mean(returns) <= reward_threshold:
        raise AssertionError("the mean return is %.2f, not above %.2f" % (np.mean(returns), reward_threshold))
    return (returns, lengths) if return_episode_rewards else (float(np.mean(returns)), float(np.std(returns)))
