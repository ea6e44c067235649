"""The paper's picture of clusters: ground truth, SwAV and GEDI on moons and circles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gedi.experiments import plots
from gedi.experiments.cells import cell_data, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import divergence_notes, mean_std, spread_note, summary, write_json
from gedi.experiments.table1 import DATASETS, cells_of

NAME, TITLE = "fig-clusters", "Clusters found on moons and circles"
METHODS = {"swav": "SwAV", "default": "GEDI"}


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and draw the test points of the first seed in the colours of their clusters."""
    table = {(data, method): cells_of(data, method, budget) for data in DATASETS for method in METHODS}
    found = run_cells([cell for cells in table.values() for cell in cells], out, jobs, say)
    groups = {place: summary([found[cell] for cell in cells]) for place, cells in table.items()}
    made, grid = plots.figure(len(DATASETS), 1 + len(METHODS), width=3.2, height=3.0)
    for row, data in zip(grid, DATASETS, strict=True):
        _, x, y = cell_data(table[data, "default"][0])
        panels = [("ground truth", y)]
        for method, name in METHODS.items():
            measured = found[table[data, method][0]]
            panels.append((f"{name}, NMI {measured['nmi']:.2f}", np.asarray(measured["labels"])))
        for axes, (title, labels) in zip(row, panels, strict=True):
            plots.scatter_clusters(axes, x, plots.in_order_of_appearance(labels), size=7)
            axes.set_title(title, fontsize=10)
            x_limits, y_limits = plots.window(x)
            axes.set(xlim=x_limits, ylim=y_limits)
        row[0].set_ylabel(data, fontsize=11)
    picture = plots.save(made, out / f"{NAME}.png")
    rows = [[data, *(mean_std(groups[data, method]) for method in METHODS)] for data in DATASETS]
    notes = [
        spread_note(budget),
        f"The picture shows the test points of seed {budget.seeds[0]}. Clusters are coloured in order of appearance: "
        "equal partitions have equal colours.",
    ]
    columns = ["data set", *(f"{name}, NMI" for name in METHODS.values())]
    outcome = Outcome(TITLE, columns, rows, notes + divergence_notes(found), [picture])
    listed = [{"dataset": data, "method": method, **group} for (data, method), group in groups.items()]
    write_json(NAME, outcome, budget, out, found, listed)
    return outcome
