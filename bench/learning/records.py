"""Repeats published results on one core; see records.md, whose table this writes.

    python bench/learning/records.py [ROW...] [--seeds N]

A finished run is a line of results/records.jsonl and is not repeated. Rows are those of ROWS and REASONING, all if none is
named.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

from common import HERE, ROOT, results
from published import CLEANRL, PLAIN
from table import interval

# build/train and build/hidden begin with settings of each environment: every one that matters is named here.
NORMALIZED = {"normalize_obs": True, "normalize_reward": True}
HIDDEN_VELOCITY = PLAIN | {"learning_rate_schedule": "linear", "epochs": 10, "hidden": "64,64"}
CARTPOLE = HIDDEN_VELOCITY | {"total_steps": 100000, "num_envs": 8, "rollout_steps": 128, "learning_rate": 2e-3}
PENDULUM = HIDDEN_VELOCITY | NORMALIZED | {"total_steps": 100000, "num_envs": 4, "rollout_steps": 256, "gamma": 0.9,
                                           "gae_lambda": 0.9, "learning_rate": 1e-3, "activation": "relu"}
CAR = HIDDEN_VELOCITY | NORMALIZED | {"total_steps": 300000, "num_envs": 4, "rollout_steps": 512, "gamma": 0.9999,
                                      "learning_rate": 3e-4, "gsde": "yes", "gsde_steps": 16}
GRU = {"recurrent": 32, "sequence_steps": 16}
PUREJAXRL = CLEANRL | {"total_steps": 10000000, "num_envs": 64, "minibatch_size": 1024, "learning_rate": 5e-3,
                       "activation": "relu", "conv": "none"}
GAME = PUREJAXRL | {"total_steps": 20000000, "minibatch_size": 512, "learning_rate": 2.5e-3, "conv": "8x3x1", "hidden": "128",
                    "shared_trunk": True}

MEMORY = "a GRU of 32, theirs an LSTM of 256; other settings; ten seeds, theirs is one run"
STACK = "no memory: the last four observations; other settings; ten seeds, theirs is one run"
CONV = ("8 convolutions of 3 x 3 and a layer of 128, theirs 32 of 2 x 2, a mean over 2 x 2 and layers of 64; 64 environments, "
        "theirs 4,096")

# figure: last, the mean return of the last 100 training episodes; greedy, sampled: of 100 fresh episodes after the training
ROWS = {
    "CartPole-v1": {"by": "CleanRL, PureJaxRL", "theirs": "500; 186 s (CleanRL), 17 s (PureJaxRL, a GPU)", "seeds": 10,
                    "figure": "last", "config": CLEANRL,
                    "differs": "the time limit is no end of the task ([published.md](published.md))"},
    "CartPoleNoVel-v1": {"by": "rl-baselines3-zoo", "theirs": "500", "seeds": 10, "figure": "greedy",
                         "config": CARTPOLE | GRU | {"minibatch_size": 256, "gamma": 0.98, "gae_lambda": 0.9,
                                                     "normalize_obs": True}, "differs": MEMORY},
    "CartPoleNoVel-v1-stack": {"by": "rl-baselines3-zoo", "theirs": "500", "seeds": 10, "figure": "greedy",
                               "config": CARTPOLE, "differs": STACK},
    "PendulumNoVel-v1": {"by": "rl-baselines3-zoo", "theirs": "-218", "seeds": 10, "figure": "greedy",
                         "config": PENDULUM | GRU, "differs": MEMORY},
    "PendulumNoVel-v1-stack": {"by": "rl-baselines3-zoo", "theirs": "-218", "seeds": 10, "figure": "greedy",
                               "config": PENDULUM, "differs": STACK},
    "MountainCarContinuousNoVel-v0": {"by": "rl-baselines3-zoo", "theirs": "91.5", "seeds": 10, "figure": "greedy",
                                      "config": CAR | {"num_envs": 8, "rollout_steps": 256, "minibatch_size": 256,
                                                       "learning_rate": 1e-3, "recurrent": 16},
                                      "differs": MEMORY.replace("32", "16")},
    "MountainCarContinuousNoVel-v0-stack": {"by": "rl-baselines3-zoo", "theirs": "91.5", "seeds": 10, "figure": "greedy",
                                            "config": CAR, "differs": STACK},
    "Breakout": {"by": "PureJaxRL", "theirs": "about 40 (45 s of an A40)", "seeds": 10, "figure": "last", "config": PUREJAXRL,
                 "differs": "the time limit is no end of the task"},
    "MinAtar/Breakout-v1": {"by": "Pgx", "theirs": "50", "seeds": 3, "figure": "sampled", "config": GAME, "differs": CONV},
    "MinAtar/Asterix-v1": {"by": "Pgx", "theirs": "22 to 25", "seeds": 3, "figure": "sampled", "config": GAME, "differs": CONV},
    "MinAtar/Freeway-v1": {"by": "Pgx", "theirs": "63", "seeds": 3, "figure": "sampled", "config": GAME, "differs": CONV},
    "MinAtar/Seaquest-v1": {"by": "Pgx", "theirs": "54", "seeds": 3, "figure": "sampled", "config": GAME, "differs": CONV},
    "MinAtar/SpaceInvaders-v1": {"by": "Pgx", "theirs": "145 to 153", "seeds": 3, "figure": "sampled", "config": GAME,
                                 "differs": CONV},
}

# Trained by build/reasoning, which has their settings.
REASONING = {"spell_backward": {"seeds": 3}, "Countdown": {"seeds": 3}}


def measured(command):
    """Standard output of a command, and its processor seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output, round(usage.ru_utime + usage.ru_stime, 2)


def train(name, seed):
    """The line of a training; its processor seconds include the evaluation."""
    row = ROWS[name]
    program = ROOT / "build" / ("hidden" if "NoVel" in name else "train")
    with tempfile.TemporaryDirectory() as folder:
        progress = pathlib.Path(folder) / "progress.csv"
        command = [program, "--json", "--quiet", "--eval-episodes", "100", "--csv", progress]
        for field, value in (row["config"] | {"env": row.get("env", name), "seed": seed}).items():
            command += ["--" + field.replace("_", "-"), str(int(value) if isinstance(value, bool) else value)]
        output, seconds = measured(command)
        with progress.open(newline="") as file:
            last = [line["rollout/ep_rew_mean"] for line in csv.DictReader(file)][-1]
    result = json.loads(output)
    return {"task": name, "seed": seed, "steps": result["steps"], "seconds": seconds, "last": round(float(last), 2),
            "greedy": result["eval_mean_return"], "sampled": result["eval_sampled_mean_return"]}


def reason(name, seed):
    """The line of a training by imitation, then by each method."""
    return json.loads(measured([ROOT / "build" / "reasoning", name, str(seed)])[0])


def rows(cells):
    return "".join("| " + " | ".join(c) + " |\n" for c in cells)


def table(lines):
    cells = [["task", "steps", "published by", "theirs", "ppo.h", "seeds", "processor seconds", "what differs"], ["---"] * 8]
    for name, row in ROWS.items():
        mine = [r for r in lines if r["task"] == name]
        if mine:
            figure = "{:.1f} [{:.1f}, {:.1f}]".format(*interval([r[row["figure"]] for r in mine]))
            cells.append([name, f"{row['config']['total_steps']:,}", row["by"], row["theirs"], figure,
                          f"{len(mine)} of {row['seeds']}", f"{np.median([r['seconds'] for r in mine]):.1f}", row["differs"]])
    return rows(cells)


def reasoning_table(lines):
    cells = [["problems", "after", "most likely tokens", "sampled tokens", "seeds", "processor minutes"], ["---"] * 6]
    for name, row in REASONING.items():
        mine = [r for r in lines if r["task"] == name]
        for stage, title in {"sft": "the imitation", "grpo": "GRPO", "ppo": "PPO with a critic"}.items():
            if mine:
                shares = [sorted(100 * r[stage][how] for r in mine) for how in ("greedy", "sampled")]
                cells.append([name, title, *(f"{np.median(s):.1f} ({s[0]:.1f} to {s[-1]:.1f})" for s in shares),
                              f"{len(mine)} of {row['seeds']}", f"{np.median([r[stage]['minutes'] for r in mine]):.2f}"])
    return rows(cells)


def replace_table(page, head, text):
    """The page with another table in the place of the one whose first column is called `head`."""
    before, _, rest = page.partition(f"| {head} |")
    return before + text + rest[rest.index("\n\n") + 1:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", default=[*ROWS, *REASONING], metavar="ROW")
    parser.add_argument("--seeds", type=int, help="those of the row if not given")
    args = parser.parse_args()
    done = {(r["task"], r["seed"]) for r in results("records")}
    with (HERE / "results" / "records.jsonl").open("a") as file:
        for name in args.rows:
            run, row = (reason, REASONING[name]) if name in REASONING else (train, ROWS[name])
            for seed in range(1, 1 + (args.seeds or row["seeds"])):
                if (name, seed) not in done:
                    line = json.dumps(run(name, seed))
                    print(line, file=file, flush=True)
                    print(line, flush=True)
    path = HERE / "records.md"
    page = replace_table(path.read_text(), "task", table(results("records")))
    path.write_text(replace_table(page, "problems", reasoning_table(results("records"))))
