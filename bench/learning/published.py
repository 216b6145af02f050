"""Repeats published PPO tables with their publishers' settings; see published.md, whose table this writes."""
import argparse
import csv
import json
import math
import multiprocessing
import pathlib
import subprocess
import tempfile

import numpy as np

from common import HERE, ROOT, SPEC, results

SEEDS = 10
WINDOW = 100  # of both publishers: episodes, or rows of a log

# build/train begins with tuned settings of each environment: every one of them is named here.
PLAIN = SPEC["stable_baselines3_defaults"] | {
    "gsde": "no", "log_std_init": 0, "critic_learning_rate": 0, "weight_decay": 0,
}
CLEANRL = PLAIN | {
    "num_envs": 4, "rollout_steps": 128, "minibatch_size": 128, "epochs": 4, "total_steps": 500000,
    "learning_rate": 2.5e-4, "learning_rate_schedule": "linear", "adam_eps": 1e-5,
    "gamma": 0.99, "gae_lambda": 0.95, "clip_low": 0.2, "clip_high": 0.2, "value_clip": 0.2,
    "value_coef": 0.5, "entropy_coef": 0.01,
    "max_grad_norm": 0.5, "hidden": "64,64", "activation": "tanh", "init": "orthogonal",
}
SLM_CLASSIC = PLAIN | {
    "num_envs": 4, "rollout_steps": 256, "minibatch_size": 64, "epochs": 10, "total_steps": 300000,
    "learning_rate_schedule": "constant", "adam_eps": 1e-8, "gamma": 0.99, "gae_lambda": 0.95,
    "clip_low": 0.2, "clip_high": 0.2, "value_coef": 1.0, "entropy_coef": 0.01,
    "max_grad_norm": 0.5, "hidden": "64,64", "activation": "tanh", "init": "uniform",
}
SLM_BOX2D = SLM_CLASSIC | {
    "num_envs": 8, "weight_decay": 0.01, "max_grad_norm": 1.0, "init": "orthogonal",
}

# Their figure: mean, standard deviation (None: not printed), runs. log: frames between two rows of SLM-Lab's log.
ROWS = {
    "CleanRL CartPole-v1": {"env": "CartPole-v1", "theirs": (490.04, 6.12, 3), "config": CLEANRL},
    "CleanRL Acrobot-v1": {"env": "Acrobot-v1", "theirs": (-86.36, 1.32, 3), "config": CLEANRL},
    "CleanRL MountainCar-v0": {"env": "MountainCar-v0", "theirs": (-200.00, 0.00, 3), "config": CLEANRL},
    # ends.c: the time limit counts as a failure, as in CleanRL's ppo.py.
    "CleanRL CartPole-v1-ends": {"env": "CartPole-v1-ends", "theirs": (490.04, 6.12, 3), "config": CLEANRL},
    "CleanRL Acrobot-v1-ends": {"env": "Acrobot-v1-ends", "theirs": (-86.36, 1.32, 3), "config": CLEANRL},
    "SLM-Lab CartPole-v1": {"env": "CartPole-v1", "theirs": (498.94, None, 4), "log": 500, "config": SLM_CLASSIC | {
        "total_steps": 200000, "minibatch_size": 128, "epochs": 15, "gamma": 0.9769, "gae_lambda": 0.9112,
        "clip_low": 0.1312, "clip_high": 0.1312, "entropy_coef": 0.0074, "value_coef": 2 * 0.6049,
        "learning_rate": 5.909e-4, "critic_learning_rate": 6.352e-4}},
    "SLM-Lab Acrobot-v1": {"env": "Acrobot-v1", "theirs": (-81.28, None, 4), "log": 500, "config": SLM_CLASSIC | {
        "learning_rate": 3e-4, "critic_learning_rate": 1e-3}},
    "SLM-Lab Pendulum-v1": {"env": "Pendulum-v1", "theirs": (-174.87, None, 4), "log": 500, "config": SLM_CLASSIC | {
        "rollout_steps": 2048, "entropy_coef": 0, "learning_rate": 3e-4, "hidden": "256,256", "activation": "relu",
        "init": "orthogonal", "log_std_init": math.log(2)}},
    "SLM-Lab LunarLander-v3": {"env": "LunarLander-v3", "theirs": (183.30, None, 4), "log": 1000, "config": SLM_BOX2D | {
        "rollout_steps": 512, "minibatch_size": 256, "epochs": 15, "gamma": 0.9914, "gae_lambda": 0.9527,
        "clip_low": 0.218, "clip_high": 0.218, "entropy_coef": 1e-5, "value_coef": 2 * 1.1395,
        "learning_rate": 5.65e-4, "critic_learning_rate": 5.58e-3, "hidden": "128,128"}},
    "SLM-Lab LunarLanderContinuous-v3": {
        "env": "LunarLanderContinuous-v3", "theirs": (132.58, None, 4), "log": 1000, "config": SLM_BOX2D | {
            "rollout_steps": 640, "minibatch_size": 128, "epochs": 8, "gamma": 0.9858, "gae_lambda": 0.9758,
            "entropy_coef": 1.27e-5, "value_coef": 2 * 1.452, "learning_rate": 2.67e-4,
            "critic_learning_rate": 1.34e-3, "hidden": "128,64", "activation": "relu"}},
}


def run(job):
    """Trains, and returns the line of the result file: the figure as the row's publisher computes it."""
    name, seed = job
    row = ROWS[name]
    program = ROOT / "build" / ("lunarlander" if "Lunar" in name else "ends" if "ends" in name else "train")
    with tempfile.TemporaryDirectory() as folder:
        progress = pathlib.Path(folder) / "progress.csv"
        command = [program, "--json", "--quiet", "--eval-episodes", "100", "--csv", progress]
        for field, value in (row["config"] | {"env": row["env"], "seed": seed}).items():
            command += ["--" + field.replace("_", "-"), str(int(value) if isinstance(value, bool) else value)]
        result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        with progress.open(newline="") as file:
            curve = [(int(line["time/total_timesteps"]), float(line["rollout/ep_rew_mean"]))
                     for line in csv.DictReader(file) if line["rollout/ep_rew_mean"] not in ("", "nan")]
    steps, means = zip(*curve)  # each a mean of the last 100 episodes
    if "log" in row:  # a mean of the last 100 rows, each of them a mean of the last 100 episodes
        figure = np.interp(steps[-1] - row["log"] * np.arange(WINDOW), steps, means).mean()
    else:
        figure = means[-1]
    return {"library": "published", "task": name, "seed": seed, "steps": result["steps"],
            "figure": round(float(figure), 2), "last": round(means[-1], 2),
            "final": round(result["eval_mean_return"], 2)}


def verdict(ours, theirs):
    """Beyond two standard errors of the difference or not; a spread not printed is taken to be ours."""
    (mean, std, runs), (their_mean, their_std, their_runs) = ours, theirs
    error = math.sqrt(std ** 2 / runs + (std if their_std is None else their_std) ** 2 / their_runs)
    if abs(mean - their_mean) <= 2 * error + 0.005:
        return "the same"
    return "above" if mean > their_mean else "below"


def table(lines):
    cells = [["published by", "environment", "steps", "theirs", "runs", "ppo.h", "seeds", "verdict",
              "most likely actions"], ["---"] * 9]
    for name, row in ROWS.items():
        publisher, env = name.split()
        mine = [r for r in lines if r["task"] == name]
        if not mine:
            continue
        figures, finals = (np.array([r[key] for r in mine]) for key in ("figure", "final"))
        mean, std, runs = row["theirs"]
        cells.append([publisher, env, f"{row['config']['total_steps']:,}",
                      f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}", str(runs),
                      f"{figures.mean():.2f} ± {figures.std():.2f}", str(len(mine)),
                      verdict((figures.mean(), figures.std(), len(mine)), row["theirs"]) if len(mine) >= SEEDS else "-",
                      f"{finals.mean():.2f} ± {finals.std():.2f}"])
    return "".join("| " + " | ".join(c) + " |\n" for c in cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW", help="as 'SLM-Lab Acrobot-v1'; all if none")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    args = parser.parse_args()
    done = {(r["task"], r["seed"]) for r in results("published")}
    jobs = [(name, seed) for seed in range(1, args.seeds + 1) for name in args.rows if (name, seed) not in done]
    with multiprocessing.Pool(args.jobs, maxtasksperchild=1) as pool, \
            (HERE / "results" / "published.jsonl").open("a") as file:
        for line in pool.imap_unordered(run, jobs):
            print(json.dumps(line), file=file, flush=True)
            print(f"{line['task']} seed {line['seed']}: {line['figure']}", flush=True)
    page = HERE / "published.md"
    before, mark, rest = page.read_text().partition("| published by")
    page.write_text(before + table(results("published")) + rest[rest.index("\n\n") + 1:])
    print(table(results("published")), end="")
