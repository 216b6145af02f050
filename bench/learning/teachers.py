"""Steps to a threshold after cloning ten scripted episodes, and without: runs build/teachers and prints the table.

    make build/teachers
    python bench/learning/teachers.py           # half an hour of one core; a finished run is not repeated

A finished run is a line of results/teachers.jsonl; removing lines repeats them. Needs numpy only.
"""
import json
import os
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results", "teachers.jsonl")
NORMAL = "total_steps=1000000 num_envs=16 normalize_obs=yes normalize_reward=yes"
ROWS = [("MountainCar-v0", "the defaults of ppo.h, 16 copies, normalized", NORMAL, {"clone": 10, "none": 10}),
        ("MountainCar-v0", "the zoo's", NORMAL + " rollout_steps=16 epochs=4 gae_lambda=0.98", {"clone": 10, "none": 10}),
        ("LunarLander-v3", "the zoo's", "total_steps=1000000 num_envs=16 rollout_steps=1024 epochs=4 gamma=0.999 "
         "gae_lambda=0.98 entropy_coef=0.01 learning_rate_schedule=constant value_coef=1",
         {"dagger": 5, "clone": 3, "none": 3})]


def load():
    if not os.path.exists(RESULTS):
        return []
    with open(RESULTS) as f:
        return [json.loads(line) for line in f]


def find(runs, task, settings, teacher, seed=None):
    return [r for r in runs if (r["task"], r["settings"], r["teacher"]) == (task, settings, teacher)
            and seed in (None, r["seed"])]


def interval(x, rng):
    """The mean, and its 95 % bootstrap interval."""
    means = rng.choice(x, (10000, len(x))).mean(1)
    return "%s [%s, %s]" % tuple("{:,.0f}".format(v) for v in (np.mean(x), *np.percentile(means, [2.5, 97.5])))


def main():
    for task, name, settings, teachers in ROWS:
        for teacher, seed in [(t, seed) for t in teachers for seed in range(1, teachers[t] + 1)]:
            if find(load(), task, name, teacher, seed):
                continue
            line = subprocess.run([os.path.join(HERE, "..", "..", "build", "teachers"), task, teacher, str(seed),
                                   settings], check=True, capture_output=True, text=True).stdout
            with open(RESULTS, "a") as f:
                f.write(json.dumps(dict(json.loads(line), settings=name)) + "\n")
    runs, rng = load(), np.random.default_rng(1)
    print("| task | settings | teacher | seeds | steps that the script labelled | return before PPO | steps of PPO to the "
          "threshold | of the slowest seed |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for task, name, _, teachers in ROWS:
        for teacher in teachers:
            some = find(runs, task, name, teacher)
            reached = [r["reached"] for r in some if r["reached"] >= 0]
            cell = interval(reached, rng) if reached else "-"
            if len(reached) < len(some):
                cell += ", %d never" % (len(some) - len(reached))
            print("| %s | %s | %s | %d | %s | %.1f | %s | %s |" % (
                task, name, teacher, len(some), "{:,.0f}".format(np.mean([r["recorded_steps"] for r in some])),
                np.mean([r["first_return"] for r in some]), cell,
                "{:,}".format(max(reached)) if len(reached) == len(some) else "never"))


if __name__ == "__main__":
    main()
