"""Table 3: GEDI on SVHN, CIFAR-10 and CIFAR-100 with something left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedi.experiments import paper
from gedi.experiments.image_cells import ABLATIONS, NOTE_BATCHES, NOTE_COMPUTE, ROWS, lay_out
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.table2 import COLUMNS, clusters_line


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and lay out our numbers beside the paper's."""
    notes = [
        NOTE_BATCHES,
        "'no NF' is GEDI without L_NF, and so without the stage that trains it alone where there is one (scale "
        "'laptop'); '2 encoders': besides, the energy has an encoder of its own.",
        "Scale 'laptop': GEDI itself has two encoders, and 'no NF, 2 encoders' its very density; there step 2 has to "
        "do what L_NF's stage did, and has its iterations and learning rate.",
        NOTE_COMPUTE,
    ]
    title = "Ablation of GEDI on SVHN, CIFAR-10 and CIFAR-100: NMI on the test set"
    return lay_out("table3", title, ABLATIONS, COLUMNS, _lines, notes, budget, out, jobs, say)


def _lines(data: str, row: str, group: dict[str, Any]) -> list[list[str]]:
    return [clusters_line(group, paper.TABLE3[data][ROWS[row].variant])]
