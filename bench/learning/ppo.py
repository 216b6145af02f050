"""Trains each task with ppo.h and appends the results to results/ppo.jsonl; see README.md."""
import csv
import json
import pathlib
import subprocess
import tempfile

from common import EVAL_EPISODES, ROOT, TASKS, sweep


def train(task, seed, **flags):
    """Runs the task's program and returns its line of JSON."""
    flags = TASKS[task]["config"] | {"env": task, "seed": seed, "eval_episodes": EVAL_EPISODES} | flags
    command = [ROOT / TASKS[task]["program"], "--json", "--quiet"]
    for name, value in flags.items():
        command += ["--" + name.replace("_", "-"), str(int(value) if isinstance(value, bool) else value)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def run(task, seed):
    with tempfile.TemporaryDirectory() as folder:
        progress = pathlib.Path(folder) / "progress.csv"
        result = train(task, seed, csv=progress)
        with progress.open(newline="") as file:
            curve = [[int(row["time/total_timesteps"]), float(row["rollout/ep_rew_mean"])]
                     for row in csv.DictReader(file) if row["rollout/ep_rew_mean"] not in ("", "nan")]
    return result["steps"], result["eval_mean_return"], curve


if __name__ == "__main__":
    sweep("ppo", run)
