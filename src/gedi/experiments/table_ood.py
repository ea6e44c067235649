"""Own test images told from those of another data set (the three OOD tables of Appendix J)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedi.experiments import paper
from gedi.experiments.image_cells import ROWS, TITLES, lay_out
from gedi.experiments.image_scores import MOST
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import mean_std

COLUMNS = ("against", "AUROC", "AUROC in the paper", "AUROC by log p")


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and lay out our numbers beside the paper's."""
    notes = [
        "AUROC: the chance that an image of the test set of the data trained on scores higher than one of the other's, "
        f"by s(x) = -||d log p / dx||, the paper's criterion, and beside it by log p. At most {MOST:,} images of each.",
        "Barlow and SwAV train no density: theirs is an energy head as it was made, on a trained encoder.",
    ]
    title = "Foreign images: trained on SVHN, CIFAR-10 or CIFAR-100, shown the two others"
    return lay_out("table-ood", title, tuple(ROWS), COLUMNS, _lines, notes, budget, out, jobs, say)


def _lines(data: str, row: str, group: dict[str, Any]) -> list[list[str]]:
    return [
        [
            TITLES[other],
            mean_std(group, f"ood_gradient_{other}"),
            str(theirs[row]),
            mean_std(group, f"ood_log_density_{other}"),
        ]
        for other, theirs in paper.OOD[data].items()
    ]
