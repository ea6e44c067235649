"""Every named method on the same nets, data and number of iterations: handwritten digits and MNIST."""

from __future__ import annotations

import functools
from pathlib import Path

from gedi.experiments import cells
from gedi.experiments.cells import Cell, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.representation import of_representation
from gedi.experiments.summary import divergence_notes, mean_std, spread_note, summary, write_json
from gedi.training.presets import METHODS

NAME, TITLE = "table-methods", "All methods on handwritten digits (1,797 of 8x8) and on MNIST (10,000 of 28x28)"
ROWS = {"digits": None, "mnist": 10_000}
BASELINE = "kmeans"
SCORES = {"nmi": "NMI", "accuracy": "accuracy", "nmi_of_representation": "NMI of enc", "probe": "probe", "knn": "kNN"}


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and list the methods of each data set."""
    data_sets = ["digits"] if budget.scale == "smoke" else list(ROWS)
    table = {(data, m): cells_of(data, m, budget) for data in data_sets for m in (*METHODS, BASELINE)}
    measure = functools.partial(cells.measure, more=of_representation)
    found = run_cells([cell for group in table.values() for cell in group], out, jobs, say, measure=measure)
    groups = {place: summary([found[cell] for cell in group]) for place, group in table.items()}
    rows = [
        [data, method, *(mean_std(group, score) for score in SCORES), f"{group['seconds']['mean']:.0f}"]
        for (data, method), group in groups.items()
    ]
    outcome = Outcome(TITLE, ["data set", "method", *SCORES.values(), "seconds a fit"], rows, notes(budget))
    outcome.notes += divergence_notes(found)
    listed = [{"dataset": data, "method": method, **group} for (data, method), group in groups.items()]
    write_json(NAME, outcome, budget, out, found, listed)
    return outcome


def cells_of(data: str, method: str, budget: Budget) -> list[Cell]:
    """The cells of one row of the table, one a seed."""
    preset = "smoke" if budget.scale == "smoke" else "digits"
    rows = budget.rows or ROWS[data]
    made = [Cell(data, 10, s, method, preset, rows=rows, iterations=budget.iterations) for s in budget.seeds]
    return made if method in METHODS else [Cell(data, 10, s, method, rows=rows) for s in budget.seeds]


def notes(budget: Budget) -> list[str]:
    """What to know about the table."""
    return [
        spread_note(budget),
        "Every method has the net, the views, the batches and the total number of iterations of the preset 'digits', "
        "and none has been tuned for itself; that preset was made for gedi, with NMI on the digits in view.",
        "NMI and accuracy (best matching): of the method's own clusters. For barlow, vicreg, w-mse, simclr and ebclr "
        "these are k-means of the embedding; jem has one cluster; kmeans is k-means of the pixels.",
        "NMI of enc: k-means of the representation, the same for all. probe: a linear classifier on it (SGD, 100 "
        "epochs); kNN: 20 neighbours by cosine. Both see labels, after training.",
        "MNIST: trained on 10,000 images of the training set, tested on the 10,000 of the test set. Digits have one "
        "split: clusters are scored on all images, probe and kNN learn from every other one.",
    ]
