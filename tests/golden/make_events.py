"""Writes events.h: an event file by TensorBoard's package, and the keys that Stable-Baselines3 logs.

    pip install numpy==2.4.6 tensorboard==2.21.0 stable-baselines3==2.9.2 gymnasium==1.4.0
    python make_events.py

How to compare: the test makes the same log with ppo_log_open() and puts g_events_wall_time in the place of
the times; the bytes must then be equal. The keys are compared as sets.
"""
import csv
import io
import os
import tempfile

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from golden import Header

WALL_TIME = 1700000000.25

EVERYTHING = {
    "rollout/ep_len_mean": 123.25, "rollout/ep_rew_mean": -45.5, "rollout/step_rew_mean": -0.25,  # the last is ours
    "time/fps": 98765, "train/approx_kl": 0.0123,
    "train/clip_fraction": 0.125, "train/clip_range": 0.2, "train/clip_range_vf": 0.3,
    "train/entropy_loss": -1.4, "train/explained_variance": 0.75, "train/learning_rate": 3e-4,
    "train/loss": 12.5, "train/policy_gradient_loss": -0.0025, "train/std": 0.9, "train/value_loss": 13.0}
ABSENT = ["rollout/ep_len_mean", "rollout/ep_rew_mean", "train/clip_range_vf", "train/std"]
LITTLE = {key: x for key, x in EVERYTHING.items() if key not in ABSENT}
LITTLE["train/explained_variance"] = float("nan")


def summary(figures):
    values = [Summary.Value(tag=key, simple_value=x) for key, x in sorted(figures.items())]
    return {"summary": Summary(value=values)}


def event_file():
    """A run that was resumed after 20480 steps."""
    events = [Event(wall_time=WALL_TIME, step=step, **what) for step, what in [
        (0, {"file_version": "brain.Event:2"}),
        (20481, {"session_log": SessionLog(status=SessionLog.START)}),
        (22528, summary(EVERYTHING)),
        (24576, summary(LITTLE)),
        (0, summary({"eval/mean_return": float("-inf")})),
        (2147483647, summary({"long/" + 195 * "k": 0.1}))]]
    file = io.BytesIO()
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString())
    return file.getvalue()


def keys(env, **settings):
    """The keys of a short run: columns of progress.csv, and tags in TensorBoard."""
    with tempfile.TemporaryDirectory() as folder:
        model = PPO("MlpPolicy", env, n_steps=256, n_epochs=1, device="cpu", seed=1, **settings)
        model.set_logger(configure(folder, ["csv", "tensorboard"]))
        model.learn(512)
        model.logger.close()
        with open(os.path.join(folder, "progress.csv")) as f:
            columns = next(csv.reader(f))
        events = EventAccumulator(folder).Reload()
        return sorted(columns), sorted(events.Tags()["scalars"])


def strings(h, name, texts):
    body = "".join('    "%s",\n' % text for text in texts)
    h.lines.append("static const char *const g_%s[] = {\n%s};" % (name, body))


def main():
    h = Header("make_events.py", "Bytes and keys.",
               ["numpy", "tensorboard", "stable-baselines3", "gymnasium"])
    h.case("An event file of a run that was resumed after 20480 steps: a version, a session start, the "
           "figures of two iterations, a scalar of -inf at step 0, and one with a key of 200 letters at step "
           "2^31 - 1.")
    h.value("double", "events_wall_time", WALL_TIME)
    h.array("unsigned char", "events", np.frombuffer(event_file(), np.uint8))
    for name, note, env, settings in [
            ("discrete", "CartPole-v1, default settings", "CartPole-v1", {}),
            ("gaussian", "Pendulum-v1, clip_range_vf 0.2", "Pendulum-v1", {"clip_range_vf": 0.2})]:
        columns, tags = keys(env, **settings)
        h.case("Stable-Baselines3's keys, sorted: %s." % note)
        strings(h, name + "_columns", columns)
        strings(h, name + "_tags", tags)
    h.save("events.h")


if __name__ == "__main__":
    main()
