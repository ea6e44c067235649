"""Linear probe and neighbours on enc(x) (Appendix J)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedi.experiments import paper
from gedi.experiments.image_cells import ROWS, lay_out
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import mean_std

COLUMNS = ("linear probe", "probe in the paper", "kNN")


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and lay out our numbers beside the paper's."""
    notes = [
        "Accuracy on the test set of a linear classifier on enc(x): SGD with momentum, learning rate 1e-3, batches of "
        "100, 100 epochs, as in the paper; features are divided by one number, their standard deviation.",
        "kNN: 20 neighbours by cosine. Both see the training labels, after training.",
    ]
    title = "Linear probe on SVHN, CIFAR-10 and CIFAR-100: accuracy on the test set"
    return lay_out("table-probe", title, tuple(ROWS), COLUMNS, _lines, notes, budget, out, jobs, say)


def _lines(data: str, row: str, group: dict[str, Any]) -> list[list[str]]:
    return [[mean_std(group, "probe"), str(paper.LINEAR_PROBE[data][row]), mean_std(group, "knn")]]
