"""The paper's figure of NMI against T in {1, 2, 5, 8, 10}: JEM, SwAV and GEDI on moons and circles."""

from __future__ import annotations

from pathlib import Path

from gedi.experiments import paper
from gedi.experiments.curves import Curve, Mark, gedi_curve, run_curves
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import NOTE_JEM
from gedi.experiments.table1 import COLUMNS, DATASETS, cells_of


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, draw and list."""
    curves = [
        curve
        for data in DATASETS
        for curve in (_flat(budget, data, "jem"), _flat(budget, data, "swav"), gedi_curve(budget, data, "GEDI", data))
    ]
    marks = [Mark(data, "GEDI in the paper (Table 1)", 10, paper.TABLE1[data]["gedi"].mean) for data in DATASETS]
    notes = [
        NOTE_JEM,
        "JEM and SwAV have no DAM: one fit a seed, drawn as a level line.",
        "The paper prints this figure without numbers; its value at T = 10 is in its Table 1.",
    ]
    title = "NMI against the number of DAM steps T, on moons and circles"
    return run_curves("fig-steps", title, curves, budget, out, jobs, say, notes=notes, marks=marks)


def _flat(budget: Budget, data: str, method: str) -> Curve:
    cells = cells_of(data, method, budget)
    return Curve(data, COLUMNS[method], {t: cells for t in budget.dam_steps}, has_dam=False)
