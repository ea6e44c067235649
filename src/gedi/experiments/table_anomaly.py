"""ADBench's tables with anomalies: GEDI's density and combined score compared with scikit-learn's detectors."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from zipfile import BadZipFile

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from gedi.data import check_rows
from gedi.errors import DataError
from gedi.evaluation import auroc, outlier_scores
from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import as_measured, fit_seed
from gedi.experiments.cells import Cell, Measured, benchmark_folder, cells_of
from gedi.experiments.tabulate import RANK, part, score_or_rank, tabulate
from gedi.training.fit import fit_rows

FOLDER, SOURCE = "adbench", "github.com/Minqi824/ADBench (datasets/Classical)"
LEARNED = 0.7  # the share of rows to train on, with their anomalies and without labels
N_CLUSTERS = 8  # the estimator's default; the task has none
SMOKE_SETS, SMOKE_ROWS = 2, 300  # at the smoke scale
DETECTORS: dict[str, dict[str, Any]] = {
    "forest": {"n_estimators": 100},
    "neighbours": {"n_neighbors": 10},
    "lof": {"n_neighbors": 20},
    "gmm": {"n_components": N_CLUSTERS, "reg_covar": 1e-3},
}
# The columns: which method, and which of its numbers.
SCORES_SHOWN = {
    "GEDI, combined": ("gedi", "auroc"),
    "GEDI, log p": ("gedi", "auroc_log_density"),
    "GEDI, gradient": ("gedi", "auroc_gradient"),
    "isolation forest": ("forest", "auroc"),
    "kNN distance": ("neighbours", "auroc"),
    "LOF": ("lof", "auroc"),
    "GMM": ("gmm", "auroc"),
}
MEAN_AUROC = "mean AUROC"  # the row before the last


@dataclass(frozen=True)
class AnomalyCell(Cell):
    """One fit on the training rows of a table."""

    rivals: ClassVar[Mapping[str, dict[str, Any]]] = DETECTORS


class Split(NamedTuple):
    """Training rows, and held-out rows of which some are anomalies."""

    train: np.ndarray
    test: np.ndarray
    is_anomaly: np.ndarray


def table_anomaly(request: Request) -> Outcome:
    """AUROC on held-out rows by table, its mean, and the mean rank of each score."""
    folder = benchmark_folder(request, FOLDER, SOURCE)
    tables = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    if not tables:
        raise DataError(f"{folder} has no .npz files: get them from {SOURCE}.")
    if request.budget.scale == "smoke":
        tables = dict(list(tables.items())[:SMOKE_SETS])
    shapes = {name: read_anomalies(path)[0].shape for name, path in tables.items()}
    rows = SMOKE_ROWS if request.budget.scale == "smoke" else None

    def fits(name: str, method: str) -> list[AnomalyCell]:
        cell = AnomalyCell(name, N_CLUSTERS, method=method, columns=shapes[name][1], rows=rows)
        return cells_of(replace(request.budget, rows=None), cell)

    return tabulate(
        request,
        f"AUROC of anomalies in {len(tables)} tables of ADBench, on held-out rows",
        parts=("table", "method"),
        cells={(name, method): fits(name, method) for name in tables for method in ("gedi", *DETECTORS)},
        rows=[*((name,) for name in tables), (MEAN_AUROC,), (RANK,)],
        columns={
            "table": part(),
            "rows": lambda results, row: "{:,} x {}".format(*shapes[row[0]]) if row[0] in shapes else "",
            **{
                title: score_or_rank(place, list(SCORES_SHOWN.values()), MEAN_AUROC)
                for title, place in SCORES_SHOWN.items()
            },
        },
        varies="split and fit both change",
        notes=[
            f"Every detector is trained on {LEARNED:.0%} of the rows, anomalies included, without labels, and scored "
            "on the rest. Seeds change the split.",
            "GEDI, combined: the mean of a row's ranks among the training rows by log p and, three times, by the tails "
            "of its columns (gedi.evaluation.outlier_scores). GEDI, gradient: the paper's criterion.",
            f"GEDI uses its defaults with {N_CLUSTERS} clusters, on the columns as they are; the others see "
            "standardised columns.",
            "We chose the combination using the labels of six of these tables.",
        ],
        measure=functools.partial(measure_detector, folder=folder),
    )


def read_anomalies(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows X [n, d] and y [n], 1 for anomalies."""
    try:
        with np.load(path, allow_pickle=False) as file:
            x, y = np.asarray(file["X"], dtype=np.float64), np.asarray(file["y"]).astype(int)
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise DataError(f"{path} is not a table with arrays X and y ({error}).") from error
    if x.ndim != 2 or y.shape != (len(x),) or set(np.unique(y)) != {0, 1}:
        raise DataError(f"{path} must have rows X [n, d], and y [n] with 0 for normal rows and 1 for anomalies.")
    return x, y


def split_rows(path: Path, cell: Cell) -> Split:
    """A random split; the same for every method."""
    x, y = read_anomalies(path)
    order = np.random.default_rng(cell.seed).permutation(len(x))[: cell.rows]
    train, test = np.split(order, [int(LEARNED * len(order))])
    return Split(x[train], x[test], y[test] == 1)


def measure_detector(cell: Cell, *, folder: Path) -> Measured:
    """Fit one detector; AUROC of its scores."""
    data = split_rows(folder / f"{cell.dataset}.npz", cell)
    began = time.process_time()
    if cell.is_rival:
        unusual = {"auroc": _rival(cell, data)}
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*columns are constant")
            rows = check_rows(data.train, n_clusters=cell.n_clusters)
        model = fit_rows(rows, n_clusters=cell.n_clusters, config=cell.config(), seed=fit_seed(cell))
        unusual = {
            "auroc": outlier_scores(model, data.train, data.test),
            "auroc_log_density": -model.score_samples(data.test),
            "auroc_gradient": -model.ood_score(data.test),
        }
    numbers = {name: auroc(score[data.is_anomaly], score[~data.is_anomaly]) for name, score in unusual.items()}
    return as_measured(cell, time.process_time() - began, numbers)


def _rival(cell: Cell, data: Split) -> np.ndarray:
    """How unusual the held-out rows are to one of scikit-learn's detectors, on standardised columns."""
    scaler, settings = StandardScaler().fit(data.train), DETECTORS[cell.method]
    train, test = np.asarray(scaler.transform(data.train)), np.asarray(scaler.transform(data.test))
    if cell.method == "neighbours":
        return NearestNeighbors(**settings).fit(train).kneighbors(test)[0][:, -1]
    if cell.method == "lof":
        return -LocalOutlierFactor(novelty=True, **settings).fit(train).score_samples(test)
    make = IsolationForest if cell.method == "forest" else GaussianMixture
    return -make(random_state=cell.seed, **settings).fit(train).score_samples(test)
