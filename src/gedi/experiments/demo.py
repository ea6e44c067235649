"""`gedi demo`: GEDI compared with k-means, SwAV and JEM on moons, circles and digits, with pictures."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gedi import runs
from gedi.experiments import Outcome, Say
from gedi.experiments.cell_fits import MODELS, run_cells
from gedi.experiments.cells import SMALL_SETS, Cell, cell_data
from gedi.experiments.plots import draw_landscape
from gedi.experiments.tabulate import METHOD_NAMES, NOTE_JEM, divergence_notes
from gedi.report.images import write_samples

DEMO_METHODS = ("kmeans", "swav", "jem", "gedi")
TITLE = "NMI / AMI with the true clusters (1 is perfect)"


def run(out: Path, *, seed: int, preset: str | None, say: Say, jobs: int | None = None) -> Outcome:
    """One seed of every method; fits that are already in ``out`` are not repeated."""
    jobs = jobs or min(2, os.cpu_count() or 1)
    # The longest fits first, so that short ones fill the gaps.
    order = [(data, m) for m in reversed(DEMO_METHODS) for data in reversed(SMALL_SETS)]
    cells = {(data, m): Cell(data, SMALL_SETS[data], seed, method=m, preset=preset) for data, m in order}
    found = run_cells(cells.values(), out, jobs, say, keep_models=True)
    rows, pictures = [], []
    for data in SMALL_SETS:
        scores = [found[cells[data, m]] for m in DEMO_METHODS]
        rows.append([data, *("diverged" if "diverged" in s else f"{s['nmi']:.2f} / {s['ami']:.2f}" for s in scores)])
        cell = cells[data, "gedi"]
        if "diverged" not in found[cell]:
            pictures.append(_picture(cell, found[cell]["nmi"], out))
    seconds = max(found[cells[data, "gedi"]]["seconds"] for data in SMALL_SETS)
    notes = [
        f"Seed {seed}, trained without labels. Moons and circles: 2,000 points, scored on 1,000 fresh ones; digits: "
        f"all 1,797 images. AMI is corrected for chance; NMI is not. The longest GEDI fit took {seconds:.0f} s.",
        NOTE_JEM,
        *divergence_notes(found),
    ]
    return Outcome(TITLE, ["data set", *(METHOD_NAMES[m] for m in DEMO_METHODS)], rows, notes, pictures)


def trained(out: Path, *, seed: int, preset: str | None) -> dict[str, tuple[Path, np.ndarray]]:
    """The folder of each GEDI run in ``out`` and its training rows, by data set; diverged runs are left out."""
    cells = [Cell(data, n_clusters, seed, preset=preset) for data, n_clusters in SMALL_SETS.items()]
    folders = {cell: out / MODELS / cell.key for cell in cells}
    return {cell.dataset: (path, cell_data(cell).x_train) for cell, path in folders.items() if path.is_dir()}


def _picture(cell: Cell, nmi: float, out: Path) -> Path:
    """Clusters, landscape, walks and samples for points in the plane; samples alone for images."""
    model = runs.load(out / MODELS / cell.key)
    path = out / f"{cell.dataset}.png"
    if model.image_shape is None:
        return draw_landscape(model, cell_data(cell).x_train, path, f"GEDI on {cell.dataset}, NMI {nmi:.2f}")
    write_samples(model, model.sample(64), path)
    return path
