"""The same GEDI defaults beyond Table 1: other seeds, noise, rotations, shapes and cluster sizes."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from gedi.experiments import Outcome, Request, plots
from gedi.experiments.cells import THIN, Cell, cells_of
from gedi.experiments.tabulate import METHOD_NAMES, Results, count, mean, number, part, tabulate

FIRST_SEED = 10  # the defaults were tuned on lower seeds
# Printed under the table: success on shapes used for tuning does not show that the recipe generalises.
SEEN_EARLIER = (
    "we tuned the defaults with labels, on other seeds of moons and circles (also at noise 0.08 and in 10 columns), "
    "moons at 70 % and 30 %, three rings and two spirals"
)
METHODS_SHOWN = ("gedi", "kmeans", "spectral")
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
    "moons in 10 columns": Cell("moons", 2, columns=10),
    "moons in 20 columns": Cell("moons", 2, columns=20),
    "circles in 10 columns": Cell("circles", 2, columns=10),
    "circles in 20 columns": Cell("circles", 2, columns=20),
}
BASE = {"moons": 5, "circles": 5}  # conditions with more seeds at the laptop scale


def table_robustness(request: Request) -> Outcome:
    """One set of defaults under every condition, compared with k-means and spectral clustering."""

    def fits(condition: str, method: str) -> list[Cell]:
        cell = replace(CONDITIONS[condition], method=method, seed=FIRST_SEED)
        return cells_of(request.budget, cell, laptop_seeds=BASE.get(condition))

    return tabulate(
        request,
        "NMI of the same defaults beyond Table 1",
        parts=("condition", "method"),
        cells={(c, m): fits(c, m) for c in CONDITIONS for m in METHODS_SHOWN},
        rows=[(condition,) for condition in CONDITIONS],
        columns={
            "data": part(),
            "seeds": count("gedi"),
            "GEDI": mean("nmi", "gedi"),
            "GEDI, AMI": mean("ami", "gedi"),
            "GEDI, lowest seed": number("nmi", "gedi", of="min"),
            "k-means": mean("nmi", "kmeans"),
            "k-means, AMI": mean("ami", "kmeans"),
            "spectral": mean("nmi", "spectral"),
            "spectral, AMI": mean("ami", "spectral"),
            "AUROC, noise": mean("auroc_uniform", "gedi"),
            "AUROC, shuffled": mean("auroc_shuffled", "gedi"),
            "seconds": number("seconds", "gedi", form=".0f"),
        },
        notes=[
            "Columns without AMI in their heading are NMI. AUROC and seconds are GEDI's.",
            f"In 10 or 20 columns: columns of noise with standard deviation {THIN:g} are added to the toy's own, and "
            "all are rotated at random, depending on the seed. These rows use the preset for tables, the others the "
            "preset for toys.",
            f"Apart from that, all rows use the same defaults. Seeds start at {FIRST_SEED}. Not every row is a new "
            f"kind of data: {SEEN_EARLIER}.",
            "Spectral clustering cannot label new points: a test point gets the label of its nearest training point.",
            "Rotated circles are left out, since a rotated circle is the same circle.",
        ],
        draw=_draw,
    )


def _draw(results: Results) -> Figure:
    """One point per seed, because a mean hides one bad seed in five."""
    made, grid = plots.figure(1, 1, width=7.5, height=0.36 * len(CONDITIONS) + 1.4)
    axes = grid[0, 0]
    for k, method in enumerate(METHODS_SHOWN):
        style = {"s": 30, "color": plots.colour(k), "marker": plots.MARKERS[k], "alpha": 0.8, "zorder": 3}
        for i, condition in enumerate(CONDITIONS):
            scores = [results.found[cell]["nmi"] for cell in results.cells[condition, method]]
            height = [i + 0.22 * (k - 1)] * len(scores)
            axes.scatter(scores, height, label=METHOD_NAMES[method] if i == 0 else None, **style)
    axes.set_yticks(range(len(CONDITIONS)), list(CONDITIONS))
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("NMI on test points, one mark per seed")
    plots.quiet(axes)
    axes.grid(axis="y", visible=False)
    for i in range(1, len(CONDITIONS)):
        axes.axhline(i - 0.5, color="#dddddd", linewidth=0.8)
    made.legend(loc="outside lower center", ncols=3, frameon=False)
    return made
