"""Gagolewski's benchmark suite for clustering algorithms: GEDI's defaults compared with scikit-learn's methods."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from gedi.errors import DataError
from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import Fit, measure_cell
from gedi.experiments.cells import Cell, CellData, Measured, benchmark_folder, cells_of
from gedi.experiments.tabulate import METHOD_NAMES, RANK, Results, Text, number, part, score_or_rank, tabulate
from gedi.settings import AUTO
from gedi.training.number import find_number

SUITE, SUITE_SOURCE = "clustering-data-v1", "github.com/gagolews/clustering-data-v1"
ROWS_SUFFIX, LABELS = ".data.gz", ".labels0.gz"  # the first of several reference labellings
SMOKE_SUITE = 2  # at the smoke scale
Settings = dict[str, Any]
CLUSTERERS: dict[str, tuple[Callable[..., Any], Settings]] = {
    "kmeans": (KMeans, {"n_init": 10}),
    "gmm": (GaussianMixture, {"n_init": 10}),
    "spectral": (SpectralClustering, {"affinity": "nearest_neighbors", "n_neighbors": 10}),
    "ward": (AgglomerativeClustering, {"linkage": "ward"}),
    "hdbscan": (HDBSCAN, {"copy": True}),
}
SUITE_METHODS = ("gedi", *CLUSTERERS)
PLACES = [(method, "ari") for method in SUITE_METHODS]
CONTROLS = ("no density", "two encoders")  # GEDI with one change: what does the density do for the clusters?
NEAR = 0.05  # the ARI that another number of clusters may cost
CALLED = METHOD_NAMES | {"gmm": "GMM", "hdbscan": "HDBSCAN"}
MEAN_ARI = "mean ARI"  # the row before the last


@dataclass(frozen=True)
class ClusteringCell(Cell):
    """One fit on a set of the suite."""

    rivals: ClassVar[Mapping[str, Settings]] = {name: settings for name, (_, settings) in CLUSTERERS.items()}


class LabelledSet(NamedTuple):
    """A set of the suite: rows [n, d], and labels [n] where 0 marks noise."""

    x: np.ndarray
    y: np.ndarray


def table_clustering(request: Request) -> Outcome:
    """ARI by set, its mean, and the mean rank of each method."""
    folder = benchmark_folder(request, SUITE, SUITE_SOURCE)
    sets = {name: read_set(path) for name, path in find_sets(folder).items()}
    if request.budget.scale == "smoke":
        sets = dict(list(sets.items())[:SMOKE_SUITE])

    def fits(name: str, method: str) -> list[ClusteringCell]:
        x, y = sets[name]
        variant = method if method in CONTROLS else "full"
        own = "gedi" if method == AUTO or method in CONTROLS else method
        cell = ClusteringCell(name, int(y.max()), method=own, variant=variant, columns=x.shape[1])
        if method == AUTO:
            cell = replace(cell, n_clusters=find_number(x, cell.config(), seed=0).chosen)
        return cells_of(replace(request.budget, rows=None), cell)

    return tabulate(
        request,
        f"ARI on {len(sets)} sets of the benchmark suite for clustering algorithms (v1)",
        parts=("set", "method"),
        cells={(name, method): fits(name, method) for name in sets for method in (*SUITE_METHODS, *CONTROLS, AUTO)},
        rows=[*((name,) for name in sets), (MEAN_ARI,), (RANK,)],
        columns={
            "set": part(),
            "rows": _of_set(lambda x, y: f"{len(x):,} x {x.shape[1]}", sets),
            "k": _of_set(lambda x, y: str(y.max()), sets),
            **{CALLED[place[0]]: score_or_rank(place, PLACES, MEAN_ARI) for place in PLACES},
            **{f"GEDI, {control}": _control(control) for control in CONTROLS},
            "GEDI, own k": _auto,
            "seconds": lambda results, row: _seconds(results, row) if row[0] in sets else "",
        },
        varies="the fit changes",
        notes=[
            "k is the number of clusters in the first reference labelling. Every method is given k except HDBSCAN, "
            "which finds its own number; the rows that it calls noise count as one more cluster.",
            "Rows that the reference marks as noise are clustered, but not scored.",
            "GEDI uses its defaults on the columns as they are; the others see standardised columns. "
            "k-means and GMM: the best of 10 starts. Spectral: 10 nearest neighbours.",
            "Mean rank: a method's rank by mean ARI on each set (ties shared), averaged over the sets; 1 is best.",
            "Seconds: GEDI's processor time.",
            "GEDI, no density: without log p there are no walks along it, so neither a cut of their graph nor their "
            "ends take part in the choice of clusters. GEDI, two encoders: clusters and density share no weights. "
            "Neither is ranked.",
            "GEDI, own k: the number of clusters that GEDI found on its own, and the ARI of the fit with that number. "
            f"The last row counts the sets where this number is the reference's, or costs at most {NEAR:g} in ARI.",
            "We tuned the rule that chooses GEDI's clusters with the labels of 26 of these sets at seed 0; the "
            "suite's other sets were not used.",
        ],
        measure=functools.partial(measure_set, folder=folder),
    )


def find_sets(folder: Path) -> dict[str, Path]:
    """The files with rows, by the names of their sets, in alphabetical order."""
    found = {path.name.removesuffix(ROWS_SUFFIX): path for path in sorted(folder.rglob(f"*{ROWS_SUFFIX}"))}
    found = {name: path for name, path in sorted(found.items()) if labels_of(path).is_file()}
    if not found:
        raise DataError(
            f"{folder} has no pair of files NAME{ROWS_SUFFIX} and NAME{LABELS}: get them from {SUITE_SOURCE}."
        )
    return found


def labels_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(ROWS_SUFFIX) + LABELS)


def read_set(path: Path) -> LabelledSet:
    """The rows in ``path`` and the reference labels beside it."""
    try:
        x, y = np.loadtxt(path, ndmin=2), np.loadtxt(labels_of(path), dtype=int, ndmin=1)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} or its labels cannot be read as plain numbers ({error}).") from error
    if len(x) != len(y) or y.min() < 0 or y.max() < 1:
        raise DataError(f"{labels_of(path)} must have one label, 0 or more, for each row of {path.name}.")
    return LabelledSet(x, y)


def measure_set(cell: Cell, *, folder: Path) -> Measured:
    """Cluster all rows of a set; score those that are not noise."""
    x, y = read_set(find_sets(folder)[cell.dataset])
    data = CellData(x, x[y > 0], y[y > 0])
    rival = functools.partial(_fit_rival, scored=y > 0) if cell.is_rival else None
    return measure_cell(cell, data, fit=rival)


def _fit_rival(cell: Cell, data: CellData, scored: np.ndarray) -> Fit:
    make, settings = CLUSTERERS[cell.method]
    count = {} if make is HDBSCAN else {"n_components" if make is GaussianMixture else "n_clusters": cell.n_clusters}
    draws = {} if make in (HDBSCAN, AgglomerativeClustering) else {"random_state": cell.seed}
    labels = make(**count, **draws, **settings).fit_predict(StandardScaler().fit_transform(data.x_train))
    return labels[scored], {}, None


# ---- columns ----


def _of_set(text: Callable[[np.ndarray, np.ndarray], str], sets: Mapping[str, LabelledSet]) -> Text:
    return lambda results, row: text(*sets[row[0]]) if row[0] in sets else ""


_seconds = number("seconds", "gedi", form=".0f")


def _control(name: str) -> Text:
    """A control's ARI; in the last rows, its mean over all sets, and no rank."""

    def text(results: Results, row: tuple[Any, ...]) -> str:
        if row[0] == RANK:
            return ""
        if row[0] == MEAN_ARI:
            sets = dict.fromkeys(name for name, _ in results.cells)
            return f"{statistics.fmean(results.groups[found, name]['ari']['mean'] for found in sets):.3f}"
        return number("ari", name)(results, row)

    return text


def _auto(results: Results, row: tuple[Any, ...]) -> str:
    """The number found and its ARI; in the last rows, their mean, and how many numbers are right or as good."""
    sets = dict.fromkeys(name for name, _ in results.cells)

    def k(name: str, method: str) -> int:
        return results.cells[name, method][0].n_clusters

    def ari(name: str, method: str) -> float:
        return results.groups[name, method]["ari"]["mean"]

    if row[0] == MEAN_ARI:
        return f"{statistics.fmean(ari(name, AUTO) for name in sets):.3f}"
    if row[0] == RANK:
        good = [k(name, AUTO) == k(name, "gedi") or ari(name, AUTO) >= ari(name, "gedi") - NEAR for name in sets]
        return f"{sum(good)} of {len(sets)}"
    return f"{k(row[0], AUTO)}: {ari(row[0], AUTO):.2f}"
