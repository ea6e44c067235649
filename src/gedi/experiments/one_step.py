"""One-step training (the paper's future work) beside two steps: quality, iterations, gradient evaluations, seconds."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from gedi.evaluation import auroc
from gedi.experiments import cells
from gedi.experiments.cells import Cell, CellData, Measured, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import divergence_notes, lowest, mean_std, spread_note, summary, write_json
from gedi.training.model import TrainedModel

NAME, TITLE = "table-one-step", "GEDI in one step and in two"
CLUSTERS = {"moons": 2, "circles": 2, "digits": 10}
METHODS = ("gedi", "gedi-1")


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and list both methods of each data set."""
    table = {(data, method): cells_of(data, method, budget) for data in CLUSTERS for method in METHODS}
    measure = functools.partial(cells.measure, more=of_density)
    found = run_cells([cell for group in table.values() for cell in group], out, jobs, say, measure=measure)
    groups = {place: summary([found[cell] for cell in group]) for place, group in table.items()}
    rows = []
    for (data, method), group in groups.items():
        paid, whole = (groups[data, m].get("gradient_evaluations", {"mean": 0.0})["mean"] for m in (method, "gedi"))
        quality = [mean_std(group), lowest(group), mean_std(group, "auroc_noise")]
        cost = [f"{iterations(table[data, method][0]):,}", f"{paid / 1e6:.2f} M ({paid / max(whole, 1.0):.0%})"]
        rows.append([data, method, *quality, *cost, f"{group['seconds']['mean']:.0f}"])
    columns = ["data set", "method", "NMI", "lowest seed", "AUROC against noise", "iterations"]
    columns += ["gradient evaluations", "seconds"]
    outcome = Outcome(TITLE, columns, rows, notes(budget) + divergence_notes(found))
    listed = [{"dataset": data, "method": method, **group} for (data, method), group in groups.items()]
    write_json(NAME, outcome, budget, out, found, listed)
    return outcome


def cells_of(data: str, method: str, budget: Budget) -> list[Cell]:
    """The cells of one row of the table, one a seed."""
    settings = {"preset": budget.preset, "rows": budget.rows, "iterations": budget.iterations}
    return [Cell(data, CLUSTERS[data], seed, method, **settings) for seed in budget.seeds]


def of_density(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """How well log p tells test points from uniform noise in their box: the quality of the density."""
    if model is None:
        return {"auroc_noise": None}
    x = data.x_test.reshape(len(data.x_test), -1)
    noise = np.random.default_rng(cell.seed).uniform(x.min(0), x.max(0), x.shape)
    return {"auroc_noise": auroc(model.score_samples(x), model.score_samples(noise))}


def iterations(cell: Cell) -> int:
    """Optimiser steps of all stages."""
    config = cell.config()
    return config.step1.iterations + config.embedding.iterations + config.step2.iterations


def notes(budget: Budget) -> list[str]:
    """What to know about the table."""
    return [
        spread_note(budget),
        "gedi-1 has no step 1, updates the density every other iteration, and walks 3 steps where gedi walks 10; its "
        "step 2 is longer by half of the step it lacks.",
        "Gradient evaluations: of d log p / dx, one a row, in SGLD and DAM; in brackets, relative to gedi.",
        "AUROC against noise: log p of test points against points drawn uniformly in their box.",
        "Scores on moons and circles are on 1,000 fresh points; digits have one split.",
    ]
