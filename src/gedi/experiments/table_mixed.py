"""Can the model use categories as well as numbers? Tables with planted segments, compared with the alternatives."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gedi.data.cell_values import pandas
from gedi.data.customers import customers
from gedi.data.recognition import recognise
from gedi.data.table_recipe import Surprises, TableRecipe
from gedi.evaluation import auroc, clustering_scores
from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import as_measured, clusters_of_rival
from gedi.experiments.cells import Cell, Measured
from gedi.experiments.tabulate import number, part, tabulate
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.guard import GuardWarning
from gedi.training.model import TrainedModel

PLANTED, TABLE_SIZE = 4, 800  # rows to train on, and as many to test
WAYS = {
    "gedi": "GEDI, the table as it is",
    "one-hot": "GEDI, one-hot columns, each scaled",
    "kmeans": "k-means, prepared columns",
    "gmm": "Gaussian mixture, prepared columns",
}


@dataclass(frozen=True)
class MixedCell(Cell):
    """One fit on a table of `TABLES`."""

    one_hot: bool = False  # GEDI takes every category for a column of numbers
    rivals: ClassVar[Mapping[str, dict[str, Any]]] = {
        "kmeans": {"n_init": 10},
        "gmm": {"n_init": 5, "reg_covar": 1e-3},
    }

    def settings(self) -> dict[str, Any]:
        return super().settings() | ({"one_hot": True} if self.one_hot else {})


def table_mixed(request: Request) -> Outcome:
    """Clusters and density of tables with words, from the table itself and from one-hot columns."""

    def cell(data: str, way: str) -> MixedCell:
        width = TABLES[data](TABLE_SIZE, seed=0)[0].shape[1]
        method = "gedi" if way == "one-hot" else way
        return MixedCell(data, PLANTED, method=method, one_hot=way == "one-hot", rows=TABLE_SIZE, columns=width)

    budget = replace(request.budget, rows=None)
    return tabulate(
        request._replace(budget=budget),
        "Tables with categories",
        parts=("data", "method"),
        cells={(data, way): cell(data, way) for data in TABLES for way in WAYS},
        columns={
            "data": part(0),
            "method": part(1, WAYS),
            "AMI": number("ami"),
            "lowest AMI": number("ami", of="min"),
            "AUROC, shuffled": number("auroc_shuffled"),
        },
        notes=[
            f"{TABLE_SIZE} rows in {PLANTED} planted segments; data and fit both change with the seed.",
            "'customers' has ids, names, cities, dates, units and 5% missing cells. 'words and noise' has three "
            "numbers, four categories that depend on the segment, and two that do not.",
            "Prepared columns: gaps filled by hand, numbers standardised, words one-hot. For one-hot columns, GEDI "
            "scales every column to unit variance, as it does with numbers.",
            "AUROC of log p: the probability that a test row scores higher than a test row with every column shuffled.",
        ],
        varies=None,
        measure=measure_mixed,
    )


def words_and_noise(n: int, *, seed: int) -> tuple[Any, np.ndarray]:
    """A data frame with three numbers, one of them noise, and six categories, two of them noise; and the segments."""
    rng = np.random.default_rng(seed)
    y = rng.choice(PLANTED, n, p=rng.dirichlet(np.full(PLANTED, 8.0)))
    numbers = np.column_stack([rng.normal(0, 1.15, (PLANTED, 2))[y], np.zeros(n)]) + rng.normal(size=(n, 3))
    columns: dict[str, Any] = {f"number {j}": column for j, column in enumerate(numbers.T)}
    for j, levels in enumerate((3, 4, 5, 4)):
        odds = rng.dirichlet(np.full(levels, 0.25), PLANTED)
        columns[f"word {j}"] = [f"level {rng.choice(levels, p=odds[segment])}" for segment in y]
    for j, levels in enumerate((3, 6)):
        columns[f"noise {j}"] = [f"level {i}" for i in rng.choice(levels, n, p=rng.dirichlet(np.full(levels, 3.0)))]
    return pandas().DataFrame(columns), y


TABLES = {"customers": customers, "words and noise": words_and_noise}


def measure_mixed(cell: MixedCell) -> Measured:
    """Fit one half of a table; GEDI's density is scored on the other."""
    assert cell.rows is not None
    frame, y = TABLES[cell.dataset](2 * cell.rows, seed=cell.seed)
    train, recipe = recognise(frame[: cell.rows], "the table")
    began = time.process_time()
    model = None if cell.is_rival else _fit(cell, train, recipe)
    found = clusters_of_rival(cell, _prepared(train, recipe)) if model is None else model.predict(train)
    seconds = time.process_time() - began
    numbers: Measured = clustering_scores(y[: cell.rows], found)
    if model is not None:
        rng = np.random.default_rng(cell.seed)
        shuffled = frame.iloc[cell.rows :].apply(lambda column: rng.permutation(column.to_numpy()))
        test, odd = (recipe.encode(some, Surprises("")) for some in (frame[cell.rows :], shuffled))
        numbers["auroc_shuffled"] = auroc(model.score_samples(test), model.score_samples(odd))
    return as_measured(cell, seconds, numbers)


def _fit(cell: MixedCell, x: np.ndarray, recipe: TableRecipe) -> TrainedModel:
    # Without a table, no words are looked for: they would be recognised in one-hot columns, too.
    known = {"table": None, "words": ()} if cell.one_hot else {"table": recipe, "words": recipe.words}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        return fit_prepared(prepare(x, cell.config(), PLANTED, **known), seed=cell.seed)


def _prepared(x: np.ndarray, recipe: TableRecipe) -> np.ndarray:
    """Numbers standardised, words one-hot."""
    x = x.copy()
    numbers = [places[0] for places in recipe.groups.values() if places not in recipe.words]
    x[:, numbers] = (x[:, numbers] - x[:, numbers].mean(0)) / x[:, numbers].std(0)
    return x
