"""MNIST as a whole, without labels and without a constraint: 60,000 images to train on, 10,000 to test."""

from __future__ import annotations

import functools
from pathlib import Path

from gedi.experiments import cells
from gedi.experiments.cells import Cell, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.representation import of_representation
from gedi.experiments.summary import divergence_notes, mean_std, spread_note, summary, write_json

NAME, TITLE = "table-mnist", "MNIST (60,000 images to train on, 10,000 to test), 10 clusters"
METHODS = {"gedi": "GEDI", "swav": "SwAV", "barlow": "Barlow", "kmeans": "k-means of pixels"}
SCORES = {"nmi": "NMI", "accuracy": "accuracy", "ari": "ARI", "probe": "probe", "knn": "kNN"}


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and list the methods."""
    table = {method: [_cell(method, seed, budget) for seed in budget.seeds] for method in METHODS}
    measure = functools.partial(cells.measure, more=of_representation)
    found = run_cells([cell for group in table.values() for cell in group], out, jobs, say, measure=measure)
    groups = {method: summary([found[cell] for cell in group]) for method, group in table.items()}
    rows = [
        [name, *(mean_std(groups[method], score) for score in SCORES), f"{groups[method]['seconds']['mean']:.0f}"]
        for method, name in METHODS.items()
    ]
    notes = [
        spread_note(budget),
        "Every method has the net, the views and the total number of iterations that the defaults give to grey images "
        "of this size. Clusters: the method's own; for Barlow, k-means of its embeddings.",
        "probe: a linear classifier on enc(x) (SGD, 100 epochs); kNN: 20 neighbours by cosine; for k-means, on pixels. "
        "Both see labels, after training.",
        "The paper has MNIST with a constraint only (table-nesy).",
    ]
    outcome = Outcome(TITLE, ["method", *SCORES.values(), "seconds a fit"], rows, notes + divergence_notes(found))
    write_json(NAME, outcome, budget, out, found, [{"method": m, **group} for m, group in groups.items()])
    return outcome


def _cell(method: str, seed: int, budget: Budget) -> Cell:
    if method == "kmeans":
        return Cell("mnist", 10, seed, method, rows=budget.rows)
    return Cell("mnist", 10, seed, method, budget.preset, rows=budget.rows, iterations=budget.iterations)
