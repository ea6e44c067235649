"""Can the verdict be trusted? Its grades compared with the truth, on fits whose true clusters are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data.sources import TOYS, data_dir
from gedi.evaluation import ami
from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import flat, measure_cell
from gedi.experiments.cells import Cell, CellData, Labelled, Measured, cells_of
from gedi.experiments.public_tables import SUITE, find_sets, read_set
from gedi.experiments.tabulate import Entry, Results, Text, part, tabulate
from gedi.report.data_sample import DataSample
from gedi.report.run_view import view_of
from gedi.report.verdict import GOOD, GRADES, LIMITS, POOR, UNGRADED, worst_of
from gedi.training.config import TrainingConfig
from gedi.training.model import TrainedModel

MADE_ROWS, DIGITS_ROWS = 300, 600
ENOUGH = 200  # iterations per stage, so that many fits are affordable
SMOKE_EVERY = 8  # at the smoke scale, one case in this many is fitted
TRUE, NEAR_RIVAL = 0.7, 0.05  # 'good' is right if AMI is at least 0.7, or at most 0.05 below the best rival's
CLEARLY_TRUE = 0.9
# The lowest AMI of each bin.
AMI_BINS = {"AMI 0.9 to 1": CLEARLY_TRUE, "AMI 0.7 to 0.9": TRUE, "AMI 0.5 to 0.7": 0.5, "AMI below 0.5": -1.0}
NO_CLUSTERS = "data without clusters"
SETS = ("iris", "wine", "ecoli", "lsun", "target", "chainlink")
SETS += ("compound", "aggregation", "wingnut", "zigzag_outliers")


@dataclass(frozen=True)
class VerdictCell(Cell):
    """One fit on data of `MADE`, on digits, or on a set of the benchmark suite."""

    def config(self) -> TrainingConfig:
        """Small networks, trained for longer than a trial run, so that many fits are affordable; digits: defaults."""
        if self.dataset == "digits" or self.preset is not None:
            return super().config()
        config = replace(self, preset="smoke").config()
        for stage in (config.step1, config.step2):
            stage.iterations = ENOUGH if stage.iterations else 0
        return config


def cases(request: Request) -> list[VerdictCell]:
    """What is fitted: right and wrong numbers of clusters, good and bad settings, and data without clusters."""
    right = {"moons": 2, "circles": 2, "rings": 3, "spirals": 2, "smile": 4, "blobs": 5, "clouds": 4}
    right |= {"clouds that touch": 4, "clouds that overlap": 4, "unequal clouds": 4, "stretched clouds": 3}
    right |= {"clouds, 12 columns": 5, "mixed table": 4, "mixed table, vague": 4}
    wrong = [("moons", 4), ("circles", 3), ("blobs", 3), ("blobs", 8), ("mixed table", 2), ("clouds, 12 columns", 8)]
    noise = [("uniform noise", 2), ("uniform noise", 4), ("uniform noise, 5 columns", 3)]
    noise += [("one Gaussian", 3), ("one Gaussian, 10 columns", 4), ("one Gaussian, and words", 3)]

    def cell(data: str, count: int, **settings: Any) -> VerdictCell:
        columns = MADE[data](10, seed=0)[0].shape[1]
        return VerdictCell(data, count, rows=MADE_ROWS, columns=columns, **settings)

    found = [cell(data, count) for data, count in [*noise, *right.items(), *wrong]]
    found.append(cell("circles", 2, method="swav"))
    found += [cell(data, right[data], preset="smoke") for data in ("moons", "clouds")]
    found.append(VerdictCell("digits", 10, rows=DIGITS_ROWS))
    found = found[::SMOKE_EVERY] if request.budget.scale == "smoke" else found
    return [one for case in found for one in cells_of(request.budget, case)] + _sets(request)


def _sets(request: Request) -> list[VerdictCell]:
    """Sets of the benchmark suite, if its files are there: every other one is for confirmation."""
    folder = request.data or data_dir() / SUITE
    present = find_sets(folder) if folder.is_dir() and request.budget.scale != "smoke" else {}
    made = []
    for place, name in enumerate(name for name in SETS if name in present):
        x, y = read_set(present[name])
        made.append(VerdictCell(name, int(y.max()), seed=place % 2, columns=x.shape[1]))
    return made


def table_verdict(request: Request) -> Outcome:
    """How often each grade was given, by how well the clusters agree with the truth."""
    folder = request.data or data_dir() / SUITE
    entries: dict[Entry, list[VerdictCell]] = {}
    for cell in cases(request):
        entries.setdefault((cell.dataset, cell.n_clusters, cell.preset or cell.method), []).append(cell)
    return tabulate(
        request,
        "The verdict on clusters beside the truth",
        parts=("data", "clusters", "settings"),
        cells=entries,
        rows=[*((name,) for name in AMI_BINS), (NO_CLUSTERS,)],
        columns={
            "clusters and truth": part(),
            **{grade: _count(grade) for grade in GRADES},
            "fits": _count(*GRADES),
        },
        varies=None,
        notes=[
            "Fits per grade. The truth is the labels that the data was made with, or that come with it; AMI is "
            "corrected for chance. The verdict sees no labels.",
            partial(_trust, half=None),
            partial(_trust, half=0),
            partial(_trust, half=1),
            "Data: toys, clouds that are clear, touch, overlap, differ in size or are stretched, mixed tables of "
            f"numbers and categories, digits, noise, and {len(SETS)} sets of the benchmark suite for clustering "
            f"algorithms if they are present. Settings: the networks of the preset smoke, trained for {ENOUGH} "
            "iterations per stage (digits: the defaults), also with too few and too many clusters, SwAV, and "
            "the preset smoke itself.",
        ],
        measure=partial(measure_grades, folder=folder),
        needs="findings",
    )


# ---- one fit ----


def measure_grades(cell: Cell, *, folder: Path) -> Measured:
    """Fit a case and judge it as its report would."""
    if cell.dataset == "digits":
        return measure_cell(cell, more=judged)
    if cell.dataset in MADE:
        x, y = MADE[cell.dataset](cell.rows or MADE_ROWS, seed=cell.seed)
    else:
        x, y = read_set(find_sets(folder)[cell.dataset])
        x, y = x[y > 0], y[y > 0]  # without noise
    return measure_cell(cell, CellData(x, x, y), more=judged)


def judged(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """What the verdict on the clusters is based on, and how well its rivals agree with the truth."""
    assert model is not None
    rows = flat(data.x_train).astype(np.float64)
    run = view_of(Path(cell.dataset), model, model.results, DataSample(cell.dataset, rows, len(rows)))
    found = {judgement.ability: judgement.findings for judgement in run.judgements}
    return {
        "findings": {name: {f.measure: f.value for f in some if f.measure} for name, some in found.items()},
        "rivals": {name: ami(data.y_test, rival.labels) for name, rival in run.measures.rivals.items()},
    }


# ---- the table ----


def grade(measured: Measured) -> str:
    """The grade of the clusters by the current limits: cells keep the values, not the grades."""
    if "diverged" in measured:
        return POOR
    values: dict[str, float] = measured["findings"].get("clusters", {})
    return worst_of(LIMITS[name].level(value) for name, value in values.items())


def is_right(measured: Measured) -> bool:
    """Whether 'good' is right: the clusters are near the truth, or about as near as those of simple methods."""
    best = max(measured.get("rivals", {}).values(), default=1.0)
    return measured["ami"] >= TRUE or (
        measured["cell"]["dataset"] not in NOISE and measured["ami"] >= best - NEAR_RIVAL
    )


def _place(measured: Measured) -> str:
    if measured["cell"]["dataset"] in NOISE:
        return NO_CLUSTERS
    return next(name for name, lowest in AMI_BINS.items() if measured["ami"] >= lowest)


def _count(*grades: str) -> Text:
    def text(results: Results, row: Entry) -> str:
        return str(sum(grade(m) in grades and _place(m) == row[0] for m in results.found.values()))

    return text


def _trust(results: Results, half: int | None) -> str:
    """What the grades are worth, on all fits or on one half of them."""
    found = [m for cell, m in results.found.items() if half is None or cell.seed % 2 == half]
    good = [m for m in found if grade(m) == GOOD]
    true = [m for m in found if m["ami"] >= CLEARLY_TRUE and grade(m) != UNGRADED]
    noise = [m for m in found if m["cell"]["dataset"] in NOISE]
    where = {None: "All fits", 0: "Seed 0, for the limits", 1: "Seed 1, for confirmation"}[half]
    called = sum(grade(m) == GOOD for m in true)
    return (
        f"{where}: {sum(map(is_right, good))} of {len(good)} grades 'good' are right (AMI at least {TRUE:g}, or at "
        f"most {NEAR_RIVAL:g} below the better of k-means and a Gaussian mixture); {called} of {len(true)} graded fits "
        f"with AMI of at least {CLEARLY_TRUE:g} are called good; "
        f"{sum(grade(m) == GOOD for m in noise)} of {len(noise)} fits of noise are called good."
    )


SEGMENTS = 4  # of a mixed table
CATEGORIES = (3, 4)  # of its two categorical columns, each coded as columns of zeros and ones


def uniform(n: int, *, seed: int, columns: int) -> Labelled:
    """Evenly spread rows: there are no clusters."""
    return np.random.default_rng(seed).uniform(size=(n, columns)), np.zeros(n, dtype=int)


def gaussian(n: int, *, seed: int, columns: int) -> Labelled:
    """One Gaussian with correlated columns: there are no clusters."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(columns, columns))
    return rng.normal(size=(n, columns)) @ mixing, np.zeros(n, dtype=int)


def clouds(
    n: int, *, seed: int, columns: int, count: int, distance: float, unequal: bool = False, stretched: bool = False
) -> Labelled:
    """Gaussian clouds with centres about ``distance`` standard deviations apart.

    ``unequal``: sizes and widths differ by a factor of up to 5 and 3. ``stretched``: long in a random direction.
    """
    rng = np.random.default_rng(seed)
    centres = _far_apart(rng, count, columns) * distance
    shares = np.linspace(1, 5, count) if unequal else np.ones(count)
    widths = rng.permutation(np.linspace(0.5, 1.5, count)) if unequal else np.ones(count)
    y = rng.choice(count, n, p=shares / shares.sum())
    noise = rng.normal(size=(n, columns))
    if stretched:
        noise = noise * np.r_[0.3, np.ones(columns - 1)] @ np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    return centres[y] + widths[y][:, None] * noise, y


def _far_apart(rng: np.random.Generator, count: int, columns: int) -> np.ndarray:
    """Random centres whose nearest pair is at distance 1."""
    tries = rng.normal(size=(200, count, columns))
    gaps = np.linalg.norm(tries[:, :, None] - tries[:, None], axis=-1) + 1e9 * np.eye(count)
    nearest = gaps.min((1, 2))
    best = int(np.argmax(nearest))
    return tries[best] / nearest[best]


def mixed_table(n: int, *, seed: int, distance: float, typical: float) -> Labelled:
    """A table of four segments: three numeric columns, and two categories coded as columns of zeros and ones.

    ``typical``: the share of rows with the typical category of their segment; the rest have a random one.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, SEGMENTS, n)
    columns = [_far_apart(rng, SEGMENTS, 3)[y] * distance + rng.normal(size=(n, 3))]
    for count in CATEGORIES:
        usual = rng.permutation(count)[np.arange(SEGMENTS) % count]
        category = np.where(rng.random(n) < typical, usual[y], rng.integers(0, count, n))
        columns.append(np.eye(count)[category])
    return np.hstack(columns), y


MADE: dict[str, Callable[..., Labelled]] = {  # functions of the number of rows and the seed
    **{name: TOYS[name] for name in ("moons", "circles", "rings", "spirals", "smile", "blobs")},
    "uniform noise": partial(uniform, columns=2),
    "uniform noise, 5 columns": partial(uniform, columns=5),
    "one Gaussian": partial(gaussian, columns=2),
    "one Gaussian, 10 columns": partial(gaussian, columns=10),
    "one Gaussian, and words": lambda n, seed: (mixed_table(n, seed=seed, distance=0, typical=0)[0], np.zeros(n, int)),
    "clouds": partial(clouds, columns=3, count=4, distance=6),
    "clouds that touch": partial(clouds, columns=2, count=4, distance=4),
    "clouds that overlap": partial(clouds, columns=2, count=4, distance=2),
    "unequal clouds": partial(clouds, columns=2, count=4, distance=6, unequal=True),
    "stretched clouds": partial(clouds, columns=2, count=3, distance=4, stretched=True),
    "clouds, 12 columns": partial(clouds, columns=12, count=5, distance=8),
    "mixed table": partial(mixed_table, distance=5, typical=0.9),
    "mixed table, vague": partial(mixed_table, distance=2, typical=0.7),
}
NOISE = tuple(name for name in MADE if name.startswith(("uniform", "one Gaussian")))
