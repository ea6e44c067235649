"""The paper's figure of Appendix H: GEDI on moons and circles asked for 2, 4 and 6 clusters, against T."""

from __future__ import annotations

from pathlib import Path

from gedi.experiments import paper
from gedi.experiments.curves import gedi_curve, run_curves
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.table1 import DATASETS


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, draw and list."""
    curves = [
        gedi_curve(budget, data, f"GEDI, c = {c}", data, n_clusters=c)
        for data in DATASETS
        for c in paper.FIGURE_CLASSES
    ]
    notes = [
        "With 2 classes in the data, c = 4 or 6 clusters cannot reach NMI 1: clusters that split each class into equal "
        "halves have NMI 0.67, into equal thirds 0.56.",
        "The paper prints this figure without numbers. It finds that DAM almost never helps for c = 4 or 6.",
    ]
    title = "NMI against T for 2, 4 and 6 clusters, on moons and circles (Appendix H)"
    return run_curves("fig-classes", title, curves, budget, out, jobs, say, notes=notes)
