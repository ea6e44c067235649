"""Table 2: clusters on SVHN, CIFAR-10 and CIFAR-100 against the classes nobody told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedi.experiments import paper
from gedi.experiments.image_cells import METHODS, NOTE_BATCHES, NOTE_CLUSTERS, NOTE_COMPUTE, lay_out
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import mean_std

COLUMNS = ("NMI", "NMI, batches of 64", "NMI in the paper", "accuracy", "ARI", "NMI of enc", "seconds a fit")
SCORES = ("accuracy", "ari", "nmi_of_representation")


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and lay out our numbers beside the paper's."""
    notes = [
        "The paper prints the best of 10 experiments.",
        NOTE_CLUSTERS,
        NOTE_BATCHES,
        NOTE_COMPUTE,
        "NMI of enc: k-means on enc(x), the same for all methods.",
    ]
    title = "Clusters on SVHN, CIFAR-10 and CIFAR-100: NMI on the test set"
    return lay_out("table2", title, METHODS, COLUMNS, _lines, notes, budget, out, jobs, say)


def _lines(data: str, row: str, group: dict[str, Any]) -> list[list[str]]:
    return [clusters_line(group, paper.TABLE2[data][row])]


def clusters_line(group: dict[str, Any], theirs: paper.Number) -> list[str]:
    """NMI first, and the paper's number beside the one it is to be compared with."""
    ours = [mean_std(group), mean_std(group, "nmi_batch64"), str(theirs)]
    return [*ours, *(mean_std(group, score) for score in SCORES), f"{group['seconds']['mean']:.0f}"]
