"""`gedi demo`: moons and circles, GEDI beside k-means, SwAV and JEM, and a picture of what it learned."""

from __future__ import annotations

import os
from pathlib import Path

from gedi.experiments.cells import MODELS, Cell, cell_data, run_cells
from gedi.experiments.landscapes import draw_landscape
from gedi.experiments.outcome import Outcome, Say
from gedi.experiments.summary import NOTE_JEM, divergence_notes
from gedi.experiments.table1 import DATASETS
from gedi.training import runs

METHODS = {"kmeans": "k-means", "swav": "SwAV", "jem": "JEM", "gedi": "GEDI"}


def run(out: Path, *, seed: int, preset: str | None, say: Say, jobs: int | None = None) -> Outcome:
    """One seed of every method; what is already in ``out`` is not fitted again."""
    jobs = jobs or min(2, os.cpu_count() or 1)
    # GEDI first: it takes longest, and the others fit in beside it.
    cells = {(data, m): Cell(data, 2, seed, method=m, preset=preset) for m in reversed(METHODS) for data in DATASETS}
    found = run_cells(cells.values(), out, jobs, say, keep_models=True)
    rows, files = [], []
    for data in DATASETS:
        scores = [found[cells[data, m]] for m in METHODS]
        rows.append([data, *("diverged" if "diverged" in s else f"{s['nmi']:.2f}" for s in scores)])
        cell = cells[data, "gedi"]
        if "diverged" not in found[cell]:
            model = runs.load(out / MODELS / cell.key)
            title = f"GEDI on {data}, NMI {found[cell]['nmi']:.2f} on fresh points"
            files.append(draw_landscape(model, cell_data(cell).x_train, out / f"{data}.png", title))
    seconds = max(found[cells[data, "gedi"]]["seconds"] for data in DATASETS)
    notes = [
        f"Seed {seed}, 2,000 training points without labels, NMI on 1,000 fresh ones; a GEDI fit took {seconds:.0f} s.",
        NOTE_JEM,
    ]
    columns = ["data set", *METHODS.values()]
    return Outcome(
        "NMI with the true clusters (1 is perfect, 0 is chance)", columns, rows, notes + divergence_notes(found), files
    )
