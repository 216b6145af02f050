"""What the scripts of this folder share: the tasks, the result files, the sweep over tasks and seeds."""
import argparse
import json
import multiprocessing
import pathlib
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SPEC = json.loads((HERE / "tasks.json").read_text())
TASKS = {name: {"seeds": SPEC["seeds"]} | task | {"config": SPEC["stable_baselines3_defaults"] | task["config"]}
         for name, task in SPEC["tasks"].items()}
EVAL_EPISODES = SPEC["eval_episodes"]
CURVE_POINTS = 50


def results(library):
    """The finished runs of a library, one dict each."""
    path = HERE / "results" / f"{library}.jsonl"
    return [json.loads(line) for line in path.open()] if path.exists() else []


def thin(curve, total_steps):
    """Of [[steps, mean return], ...], the points nearest to CURVE_POINTS even steps: all runs of a task agree."""
    wanted = [total_steps * (i + 1) / CURVE_POINTS for i in range(CURVE_POINTS)]
    kept = {min(curve, key=lambda point: abs(point[0] - steps))[0] for steps in wanted} if curve else ()
    return [[steps, round(value, 2)] for steps, value in curve if steps in kept]


def timed(job):
    """A line of the result file, and the seconds it took."""
    run, task, seed = job
    start = time.monotonic()
    steps, final, curve = run(task, seed)
    return {"task": task, "seed": seed, "steps": steps, "final": round(final, 2),
            "curve": thin(curve, TASKS[task]["config"]["total_steps"])}, time.monotonic() - start


def sweep(library, run):
    """Calls run(task, seed) -> (steps, final return, curve) for all that results/LIBRARY.jsonl lacks; appends it.

    Short tasks come first, and each seed has its turn in all tasks: an unfinished sweep is a balanced one.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(TASKS), metavar="TASK", help="all of tasks.json if none")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    args = parser.parse_args()
    done = {(r["task"], r["seed"]) for r in results(library)}
    most = max(TASKS[task]["seeds"] for task in args.tasks)
    jobs = [(run, task, seed) for seed in range(1, most + 1) for task in args.tasks
            if seed <= TASKS[task]["seeds"] and (task, seed) not in done]
    jobs.sort(key=lambda job: TASKS[job[1]]["config"]["total_steps"] > 100000)
    path = HERE / "results" / f"{library}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with multiprocessing.Pool(args.jobs, maxtasksperchild=1) as pool, path.open("a") as file:
        for result, seconds in pool.imap_unordered(timed, jobs):
            print(json.dumps({"library": library} | result), file=file, flush=True)
            print(f"{result['task']} seed {result['seed']}: {result['final']} in {seconds:.0f} s", flush=True)
