"""Turns results/*.jsonl into table.md (which it prints, too) and curves.svg; see README.md."""
import math
from collections import defaultdict

import numpy as np

from common import HERE, TASKS, results

RESAMPLES = 10000
WIDTH, HEIGHT, COLUMNS = 270, 170, 3  # of a panel with its margins; panels in a row
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 26, 22  # margins
COLORS = {"sb3": "#d95f02", "ppo": "#1b6fb3"}
LABELS = {"sb3": "Stable-Baselines3", "ppo": "ppo.h"}


def iqm(x):
    """Interquartile mean along the last axis (Agarwal et al. 2021): a quarter, rounded down, falls at each end."""
    cut = x.shape[-1] // 4
    return np.sort(x, axis=-1)[..., cut:x.shape[-1] - cut].mean(axis=-1)


def interval(x):
    """IQM and the ends of its 95 % bootstrap interval over seeds; rounded as shown, so that ties are ties."""
    x = np.array(x)
    resampled = np.random.default_rng(0).choice(x, (RESAMPLES, len(x)))
    return [round(float(v), 1) + 0.0 for v in (iqm(x), *np.percentile(iqm(resampled), [2.5, 97.5]))]


def verdict(ours, theirs):
    if ours[1] > theirs[2]:
        return "pass"
    return "reach" if ours[2] >= theirs[1] else "miss"


def show(figures, runs, seeds):
    if not figures:
        return "-"
    unfinished = f" ({runs} of {seeds} seeds)" if runs < seeds else ""
    return "{:.1f} [{:.1f}, {:.1f}]".format(*figures) + unfinished


def table(runs):
    rows = [["task", "steps", "seeds", "Stable-Baselines3", "ppo.h", "verdict", "ppo.h's policies in Gymnasium",
             "carried over"], ["---"] * 8]
    for task in TASKS:
        finals = {library: [r["final"] for r in runs[library] if r["task"] == task] for library in runs}
        figures = {library: interval(x) if x else None for library, x in finals.items()}
        sb3, ppo, carried = (figures[library] for library in ("sb3", "ppo", "carried"))
        seeds = TASKS[task]["seeds"]
        rows.append([task, f"{TASKS[task]['config']['total_steps']:,}", str(seeds),
                     show(sb3, len(finals["sb3"]), seeds), show(ppo, len(finals["ppo"]), seeds),
                     verdict(ppo, sb3) if sb3 and ppo else "-", show(carried, len(finals["carried"]), seeds),
                     ("yes" if ppo[1] <= carried[0] <= ppo[2] else "no") if ppo and carried else "-"])
    return "".join("| " + " | ".join(cells) + " |\n" for cells in rows)


def bands(runs, task):
    """{library: [[steps, lower quartile, IQM, upper quartile], ...]}, where half of the runs have a point."""
    curves = {}
    for library in LABELS:
        at = defaultdict(list)
        of_task = [r for r in runs[library] if r["task"] == task]
        for steps, value in (point for r in of_task for point in r["curve"]):
            at[steps].append(value)
        curves[library] = [[steps, np.percentile(y, 25), iqm(np.array(y)), np.percentile(y, 75)]
                           for steps, y in sorted(at.items()) if 2 * len(y) >= len(of_task)]
    return curves


def ticks(low, high):
    """Round numbers between the two, about four."""
    rough = (high - low) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def short(steps):
    return f"{steps / 1e6:g}M" if steps >= 1e6 else f"{steps / 1e3:g}k"


def panel(task, curves, left, top):
    total = TASKS[task]["config"]["total_steps"]
    values = [v for curve in curves.values() for point in curve for v in point[1:]] or [0, 1]
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or 1
    low, high = low - margin, high + margin
    x0, x1, y0, y1 = left + LEFT, left + WIDTH - RIGHT, top + HEIGHT - BOTTOM, top + TOP

    def place(steps, value):
        x = x0 + (x1 - x0) * min(steps / total, 1)
        return f"{x:.1f},{y0 + (y1 - y0) * (value - low) / (high - low):.1f}"

    svg = [f'<text x="{x0}" y="{y1 - 8}" font-weight="bold">{task}</text>',
           f'<rect x="{x0}" y="{y1}" width="{x1 - x0}" height="{y0 - y1}" fill="none" stroke="#999"/>']
    for tick in ticks(low, high):
        y = float(place(0, tick).split(",")[1])
        svg.append(f'<path d="M{x0},{y}H{x1}" stroke="#eee"/>'
                   f'<text x="{x0 - 4}" y="{y + 3:.1f}" text-anchor="end">{tick:g}</text>')
    for steps, anchor in ((0, "middle"), (total // 2, "middle"), (total, "end")):
        x = place(steps, low).split(",")[0]
        svg.append(f'<text x="{x}" y="{y0 + 13}" text-anchor="{anchor}">{short(steps) if steps else 0}</text>')
    for library, curve in curves.items():
        band = [place(p[0], p[1]) for p in curve] + [place(p[0], p[3]) for p in reversed(curve)]
        svg.append(f'<polygon points="{" ".join(band)}" fill="{COLORS[library]}" fill-opacity="0.2"/>')
        line = " ".join(place(p[0], p[2]) for p in curve)
        svg.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[library]}" stroke-width="1.5"/>')
    return svg


def drawing(runs):
    width, height = COLUMNS * WIDTH, -(-len(TASKS) // COLUMNS) * HEIGHT + 24
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" font-family="sans-serif" font-size="10" fill="#333">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, (library, label) in enumerate(LABELS.items()):
        svg.append(f'<rect x="{LEFT + 130 * i}" y="9" width="14" height="6" fill="{COLORS[library]}"/>'
                   f'<text x="{LEFT + 130 * i + 20}" y="16">{label}</text>')
    svg.append(f'<text x="{width - RIGHT}" y="16" text-anchor="end">return of the last 100 training episodes '
               'against environment steps: IQM and quartiles over seeds</text>')
    for i, task in enumerate(TASKS):
        svg += panel(task, bands(runs, task), i % COLUMNS * WIDTH, i // COLUMNS * HEIGHT + 24)
    return "\n".join(svg + ["</svg>"]) + "\n"


if __name__ == "__main__":
    runs = {library: results(library) for library in ("sb3", "ppo", "carried")}
    (HERE / "table.md").write_text(table(runs))
    (HERE / "curves.svg").write_text(drawing(runs))
    print(table(runs), end="")
