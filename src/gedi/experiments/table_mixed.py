"""Can the model use categories as well as numbers? Tables with planted segments, compared with the alternatives."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from gedi.data.cell_values import pandas
from gedi.data.customers import customers
from gedi.data.recognition import recognise
from gedi.data.table_recipe import Surprises, TableRecipe
from gedi.evaluation import auroc, clustering_scores
from gedi.experiments import Outcome, Request
from gedi.experiments.tabulate import NOTE_SMOKE, Results, number, part, statistics_of, write_json
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.guard import GuardWarning
from gedi.training.model import TrainedModel
from gedi.training.presets import configure

PLANTED, TABLE_SIZE = 4, 800  # rows to train on, and as many to test
WAYS = {
    "gedi": "GEDI, the table as it is",
    "one-hot": "GEDI, one-hot columns, each scaled",
    "kmeans": "k-means, prepared columns",
    "mixture": "Gaussian mixture, prepared columns",
}


def table_mixed(request: Request) -> Outcome:
    """Clusters and density of tables with words, from the table itself and from one-hot columns.

    These fits are not cells. They run in one process and take about twenty seconds each.
    """
    budget = request.budget
    tables = {"customers": customers, "words and noise": words_and_noise}
    fits = []
    for name, make in tables.items():
        for seed in budget.seeds:
            measured = _measure(make, seed, preset=budget.preset, rows=min(budget.rows or TABLE_SIZE, TABLE_SIZE))
            fits += [{"data": name, "seed": seed, **one} for one in measured]
            said = ", ".join(f"{one['way']} {one['ami']:.2f}" for one in measured)
            request.say(f"{name} seed {seed}: AMI {said}")
    columns = {
        "data": part(0),
        "method": part(1, WAYS),
        "AMI": number("ami"),
        "lowest AMI": number("ami", of="min"),
        "AUROC, shuffled": number("auroc_shuffled"),
    }
    entries = itertools.product(tables, WAYS)
    groups = {e: statistics_of([fit for fit in fits if (fit["data"], fit["way"]) == e]) for e in entries}
    results = Results({}, {}, groups)
    rows = [[text(results, entry) for text in columns.values()] for entry in groups]
    notes = [
        f"{TABLE_SIZE} rows in {PLANTED} planted segments; data and fit both change with the seed.",
        "'customers' has ids, names, cities, dates, units and 5% missing cells. 'words and noise' has three numbers, "
        "four categories that depend on the segment, and two that do not.",
        "Prepared columns: gaps filled by hand, numbers standardised, words one-hot. For one-hot columns, GEDI scales "
        "every column to unit variance, as it does with numbers.",
        "AUROC of log p: the probability that a test row scores higher than a test row with every column shuffled.",
    ]
    notes += [NOTE_SMOKE] if budget.scale == "smoke" else []
    outcome = Outcome("Tables with categories", list(columns), rows, notes)
    return write_json(request, outcome, seeds=budget.seeds, cells=fits)


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


def _measure(make: Any, seed: int, *, preset: str | None, rows: int) -> list[dict[str, Any]]:
    """All ways on one table; the first half is for training."""
    from sklearn.cluster import KMeans
    from sklearn.mixture import GaussianMixture

    frame, y = make(2 * rows, seed=seed)
    train, recipe = recognise(frame[:rows], "the table")
    rng = np.random.default_rng(seed)
    shuffled = frame.iloc[rows:].apply(lambda column: rng.permutation(column.to_numpy()))
    test, odd = (recipe.encode(some, Surprises("")) for some in (frame[rows:], shuffled))
    found = []
    for way, table in (("gedi", recipe), ("one-hot", None)):
        model = _fit(train, table, seed, preset)
        scores = clustering_scores(y[:rows], model.predict(train))
        separation = auroc(model.score_samples(test), model.score_samples(odd))
        found.append({"way": way, "ami": scores["ami"], "auroc_shuffled": separation})
    prepared = _prepared(train, recipe)
    rivals = {
        "kmeans": KMeans(PLANTED, n_init=10, random_state=seed),  # pyright: ignore[reportArgumentType]
        "mixture": GaussianMixture(PLANTED, reg_covar=1e-3, n_init=5, random_state=seed),
    }
    for way, rival in rivals.items():
        found.append({"way": way, "ami": clustering_scores(y[:rows], rival.fit_predict(prepared))["ami"]})
    return found


def _fit(x: np.ndarray, table: TableRecipe | None, seed: int, preset: str | None) -> TrainedModel:
    config = configure(preset, "gedi", n_features=x.shape[1], has_words=table is not None)
    # Without a table, no words are looked for: they would be recognised in one-hot columns, too.
    words = () if table is None else table.words
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        return fit_prepared(prepare(x, config, PLANTED, table=table, words=words), seed=seed)


def _prepared(x: np.ndarray, recipe: TableRecipe) -> np.ndarray:
    """Numbers standardised, words one-hot."""
    x = x.copy()
    numbers = [places[0] for places in recipe.groups.values() if places not in recipe.words]
    x[:, numbers] = (x[:, numbers] - x[:, numbers].mean(0)) / x[:, numbers].std(0)
    return x
