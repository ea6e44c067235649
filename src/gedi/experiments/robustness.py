"""The same GEDI defaults beyond Table 1: other seeds, noise, rotations, shapes and cluster sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gedi.experiments import plots
from gedi.experiments.cells import Cell, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import (
    NOTE_NEAREST,
    divergence_notes,
    lowest,
    mean_std,
    spread_note,
    summary,
    write_json,
)

NAME, TITLE = "table-robustness", "NMI of the same defaults beyond Table 1"
FIRST_SEED = 10  # seeds 0-4 are those of Table 1, and 5-9 showed a fit whose start was an outlier
# Said under the table: a shape the recipe was developed on is no proof that it generalises to new shapes.
SEEN_EARLIER = (
    "moons and circles, also at noise 0.08, moons at 70 % and 30 %, three rings and two spirals were looked at, labels "
    "included, with other seeds while the defaults were made. The other noise levels, the rotations, linked rings, "
    "smile and blobs were not"
)
METHODS = {"gedi": "GEDI", "kmeans": "k-means", "spectral": "spectral"}
CONDITIONS: dict[str, Cell] = {
    "moons": Cell("moons", 2),
    "circles": Cell("circles", 2),
    "moons, noise 0.03": Cell("moons", 2, noise=0.03),
    "moons, noise 0.08": Cell("moons", 2, noise=0.08),
    "circles, noise 0.03": Cell("circles", 2, noise=0.03),
    "circles, noise 0.08": Cell("circles", 2, noise=0.08),
    "moons, turned by 30°": Cell("moons", 2, rotate=30.0),
    "moons, turned by 45°": Cell("moons", 2, rotate=45.0),
    "moons, 70 % and 30 %": Cell("moons", 2, weights=(0.7, 0.3)),
    "three rings": Cell("rings", 3),
    "two spirals": Cell("spirals", 2),
    "linked rings (3-D)": Cell("links", 2),
    "smile": Cell("smile", 4),
    "five blobs": Cell("blobs", 5),
}
BASE = ("moons", "circles")


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, list and draw."""
    table = {(c, m): _cells(c, m, budget) for c in CONDITIONS for m in METHODS}
    found = run_cells([cell for cells in table.values() for cell in cells], out, jobs, say)
    groups = {place: summary([found[cell] for cell in cells]) for place, cells in table.items()}
    rows = []
    for c in CONDITIONS:
        gedi = groups[c, "gedi"]
        rows.append(
            [c, str(gedi["n"]), mean_std(gedi), lowest(gedi), *(mean_std(groups[c, m]) for m in METHODS if m != "gedi")]
        )
    notes = [
        spread_note(budget, "the seeds"),
        f"One set of defaults for all lines. Seeds from {FIRST_SEED} on: none was looked at while the defaults were "
        f"made. Not all lines are new kinds of data: {SEEN_EARLIER}.",
        NOTE_NEAREST.replace(" and Ward", ""),
        "Turned circles are left out: they are circles again.",
    ]
    outcome = Outcome(
        TITLE,
        ["data", "seeds", "GEDI", "GEDI, lowest seed", "k-means", "spectral"],
        rows,
        notes + divergence_notes(found),
    )
    outcome.files.append(_draw(out / f"{NAME}.png", lambda c, m: [found[cell]["nmi"] for cell in table[c, m]]))
    listed: list[dict[str, Any]] = [{"condition": c, "method": m, **group} for (c, m), group in groups.items()]
    write_json(NAME, outcome, budget, out, found, listed)
    return outcome


def _cells(condition: str, method: str, budget: Budget) -> list[Cell]:
    n = len(budget.seeds)
    if budget.scale == "laptop" and not budget.gives_seeds and condition in BASE:
        n = 5
    cell = replace(CONDITIONS[condition], method=method, rows=budget.rows)
    if method == "gedi":
        cell = replace(cell, preset=budget.preset, iterations=budget.iterations)
    return [replace(cell, seed=FIRST_SEED + k) for k in range(n)]


def _draw(path: Path, values: Callable[[str, str], list[float]]) -> Path:
    """Every seed a point: one bad seed in five is what a mean hides."""
    made, grid = plots.figure(1, 1, width=7.5, height=0.36 * len(CONDITIONS) + 1.4)
    axes = grid[0, 0]
    for k, (method, name) in enumerate(METHODS.items()):
        for i, condition in enumerate(CONDITIONS):
            found = values(condition, method)
            height = [i + 0.22 * (k - 1)] * len(found)
            label = name if i == 0 else None
            axes.scatter(
                found, height, s=30, color=plots.colour(k), marker=plots.MARKERS[k], alpha=0.8, label=label, zorder=3
            )
    axes.set_yticks(range(len(CONDITIONS)), list(CONDITIONS))
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("NMI on test points, one mark a seed")
    plots.quiet(axes)
    axes.grid(axis="y", visible=False)
    for i in range(1, len(CONDITIONS)):
        axes.axhline(i - 0.5, color="#dddddd", linewidth=0.8)
    made.legend(loc="outside lower center", ncols=3, frameon=False)
    return plots.save(made, path)
