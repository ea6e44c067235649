"""The numbers of a cell, from its fit. They are kept in a file, so runs resume and experiments share fits."""

from __future__ import annotations

import functools
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.metrics import pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from gedi import runs
from gedi.data import check_rows, load
from gedi.errors import DataError
from gedi.evaluation import clustering_scores, density_scores, knn_accuracy, linear_probe, nmi, sgd_probe
from gedi.experiments import Say
from gedi.experiments.cells import BASELINES, UNTRAINED, Cell, CellData, Measured, cell_data
from gedi.experiments.workers import in_processes, tell
from gedi.files.writing import finite
from gedi.progress import duration
from gedi.training.build import Prepared, prepare
from gedi.training.config import check, to_dict
from gedi.training.cost import estimate
from gedi.training.fit import fit_prepared
from gedi.training.guard import DivergedError, GuardWarning
from gedi.training.model import TrainedModel
from gedi.training.start import tightest_kmeans

CELLS, MODELS = "cells.jsonl", "models"
WATCHED = ("generative", "energy_size")  # losses whose largest value shows how stable a fit was
# The first of these that a cell has is shown as its result.
HEADLINES = {"nmi": "NMI {:.3f}", "auroc": "AUROC {:.3f}", "gap_alone": "energy gap {:.2g}"}
CLUSTERERS: dict[str, Any] = {  # of scikit-learn; a cell's ``rivals`` have their settings
    "kmeans": KMeans,
    "gmm": GaussianMixture,
    "spectral": SpectralClustering,
    "ward": AgglomerativeClustering,
    "hdbscan": HDBSCAN,
}
SCORED = 10_000  # log p is computed for at most this many test rows
Fit = tuple[np.ndarray, Measured, TrainedModel | None]  # clusters of the test rows, numbers, and the model if any
More = Callable[[Cell, TrainedModel | None, CellData], Measured]


def measure_cell(
    cell: Cell,
    data: CellData | None = None,
    *,
    more: More | None = None,
    fit: Callable[[Cell, CellData], Fit] | None = None,
    models: Path | None = None,
) -> Measured:
    """Fit one cell and measure it on its test split; with ``models``, the trained model is saved there too.

    If there is a density, its log p is also scored on test rows. ``random_labels`` are the scores of the same labels in
    random order: what chance gives at these cluster sizes. ``more`` adds numbers unless the fit diverged, and may
    replace scores and labels for models without clusters. The reported time is the processor time of the fit alone.
    ``fit`` replaces the method's own fit.
    """
    data = data or cell_data(cell)
    began = time.process_time()  # of this process alone: fits that run side by side slow each other down
    diverged: dict[str, Any] = {}
    numbers: Measured = {"objective": None, "gradient_evaluations": 0, "config": cell.settings()}
    try:
        fit = fit or (_fit_baseline if cell.is_rival else _fit_gedi)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Graph is not fully connected")  # spectral clustering copes
            warnings.simplefilter("ignore", GuardWarning)  # the guard's events are kept with the numbers
            labels, found, model = fit(cell, data)
        numbers |= found
    except DivergedError as error:
        # A diverged model cannot tell rows apart: it counts as one cluster, with NMI 0.
        labels, diverged = np.zeros(len(data.x_test), dtype=int), {"diverged": str(error), "guard": error.events}
        numbers["gradient_evaluations"] = model = None
    seconds = time.process_time() - began
    if model is not None and models is not None:
        _keep(model, models / cell.key)
    if model is not None and model.has_density:
        rows = flat(some(data.x_test, SCORED, cell.seed))
        with suppress(DataError):  # an unguarded run may have lost its density: log p is not a number
            numbers |= density_scores(model, rows, seed=cell.seed)
    if more is not None and not diverged:
        numbers |= more(cell, model, data)
    numbers = clustering_scores(data.y_test, labels) | diverged | {"labels": labels.tolist()} | numbers
    shuffled = np.random.default_rng(cell.seed).permutation(numbers["labels"])
    return as_measured(cell, seconds, numbers | {"random_labels": clustering_scores(data.y_test, shuffled)})


def as_measured(cell: Cell, seconds: float, numbers: Measured) -> Measured:
    """What is kept of a fit, as plain JSON: its cell, its time, its numbers, and what they were made with."""
    kept = {"key": cell.key, "cell": asdict(cell), "seconds": round(seconds, 2), **numbers}
    return json.loads(json.dumps(finite(kept | {"provenance": runs.provenance()})))


def run_cells(
    cells: Iterable[Cell],
    out: Path,
    jobs: int,
    say: Say,
    *,
    keep_models: bool = False,
    measure: Callable[..., Measured] = measure_cell,
    needs: str | None = None,
) -> dict[Cell, Measured]:
    """Numbers of all cells; those not yet in ``out/cells.jsonl`` are run in ``jobs`` processes of one thread each.

    Every cell is written as soon as it is finished, so an interrupted run resumes where it stopped. A cell is run again
    if it lacks the number called ``needs``, or a model that is to be kept, for which ``measure`` takes ``models``.
    """
    wanted = {cell: cell.key for cell in cells}
    models = out / MODELS if keep_models else None

    def is_complete(key: str, measured: Measured) -> bool:
        if "diverged" in measured:
            return True
        has_model = models is None or measured["cell"]["method"] in BASELINES or (models / key).is_dir()
        return has_model and (needs is None or needs in measured)

    found = {key: measured for key, measured in read_cells(out / CELLS).items() if is_complete(key, measured)}
    missing = {key: cell for cell, key in wanted.items() if key not in found}
    kept = len(set(wanted.values())) - len(missing)
    if kept:
        say(f"{kept} of {kept + len(missing)} fits are already in {out / CELLS}")
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    if any(cell.asks_cost for cell in missing.values()):
        say(f"{len(missing)} fits to do, {min(jobs, len(missing))} at a time; each states its cost before it starts")
    measure = functools.partial(measure, models=models) if models else measure
    with closing(in_processes(measure, list(missing.values()), jobs, say)) as finished:
        for done, measured in enumerate(finished, start=1):
            _append(out / CELLS, measured)
            found[measured["key"]] = measured
            left = (time.monotonic() - began) / done * (len(missing) - done)
            result = "diverged" if "diverged" in measured else _headline(measured)
            time_left = f", about {duration(left)} left" if done < len(missing) else ""
            taken = duration(measured["seconds"])
            say(f"{done}/{len(missing)}  {missing[measured['key']]}: {result}, {taken}{time_left}")
    return {cell: found[key] for cell, key in wanted.items()}


def read_cells(path: Path) -> dict[str, Measured]:
    """Finished cells by key. A line cut short by a kill is skipped, so its cell counts as missing."""
    found: dict[str, Measured] = {}
    if not path.is_file():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            measured = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(measured, dict) and {"key", "cell"} <= measured.keys() and HEADLINES.keys() & measured.keys():
            found[measured["key"]] = measured
    return found


def _headline(measured: Measured) -> str:
    name = next(name for name in HEADLINES if name in measured)
    return HEADLINES[name].format(measured[name])


def _append(path: Path, measured: Measured) -> None:
    cut_short = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut_short + json.dumps(measured, separators=(",", ":")) + "\n")


# ---- fitting ----


def fit_seed(cell: Cell) -> int:
    """Drawn as scikit-learn draws it, so that the fit equals GEDI(..., random_state=cell.seed)."""
    return int(np.random.RandomState(cell.seed).randint(2**31 - 1))


def prepared(cell: Cell, data: CellData) -> Prepared:
    """The cell's training rows and complete settings."""
    shape = data.x_train.shape[1:]
    image_shape = shape if len(shape) == 3 else None
    return prepare(_checked(data.x_train), check(cell.config()), cell.n_clusters, image_shape=image_shape)


def _checked(x: np.ndarray) -> np.ndarray:
    """Rows [n, d]; images keep one byte per pixel rather than eight."""
    return check_rows(flat(x), n_clusters=None, images=x.dtype == np.uint8)


def _fit_gedi(cell: Cell, data: CellData) -> Fit:
    ready, test = prepared(cell, data), _checked(data.x_test)
    expected = estimate(ready) if cell.asks_cost else None
    if expected:
        tell(f"{cell}: {expected.in_words(ready.config)}")
    model = fit_prepared(ready, seed=fit_seed(cell))
    names = ("objective", "candidates", "gradient_evaluations", "guard")
    numbers = {name: model.results.get(name) for name in names} | {"config": to_dict(model.config)}
    if expected:
        numbers |= {"estimated_seconds": expected.seconds, "training_seconds": model.results["seconds"]}
    largest = {name: max((abs(line[name]) for line in model.history if name in line), default=None) for name in WATCHED}
    if cell.method == UNTRAINED:
        labels = kmeans_labels(cell, model.represent(_checked(data.x_train)), model.represent(test))
    else:
        labels = model.predict(test)
    return labels, numbers | {"largest": largest}, model


def kmeans_labels(cell: Cell, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """The nearest k-means centre of each test row; the centres come from (at most 10,000 of) the training rows."""
    _, centres = tightest_kmeans(train, cell.n_clusters, cell.seed, n_init=BASELINES["kmeans"]["n_init"])
    return pairwise_distances_argmin(test, centres)


def _keep(model: TrainedModel, folder: Path) -> None:
    """Save all of the model or nothing."""
    temporary = folder.with_name(f".{folder.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    with runs.claimed(temporary):
        runs.save(model, temporary)
    os.replace(temporary, folder)


def _fit_baseline(cell: Cell, data: CellData) -> Fit:
    x, x_test = (flat(rows).astype(np.float32) for rows in (data.x_train, data.x_test))
    if cell.method == "kmeans":
        return kmeans_labels(cell, x, x_test), {}, None
    # The others cannot label new points, so a test point gets the label of the nearest training point.
    nearest = KNeighborsClassifier(n_neighbors=1).fit(x, clusters_of_rival(cell, x))
    return np.asarray(nearest.predict(x_test)), {}, None


def clusters_of_rival(cell: Cell, x: np.ndarray) -> np.ndarray:
    """The clusters of the rows ``x`` by one of `CLUSTERERS`."""
    make = CLUSTERERS[cell.method]
    given = {"n_components" if make is GaussianMixture else "n_clusters": cell.n_clusters, "random_state": cell.seed}
    taken = signature(make).parameters  # not all of them take a number of clusters, or draw at random
    given = {name: value for name, value in given.items() if name in taken}
    return make(**given, **cell.rivals[cell.method]).fit_predict(x)


def some(x: np.ndarray, most: int, seed: int) -> np.ndarray:
    """All of ``x``, or ``most`` of its rows at random."""
    if len(x) <= most:
        return np.asarray(x)
    return x[np.sort(np.random.default_rng(seed).choice(len(x), most, replace=False))]


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


# ---- representation: probes see the training labels, but only after training ----


def of_representation(
    cell: Cell, model: TrainedModel | None, data: CellData, *, replace_clusters: bool = False
) -> Measured:
    """How well linear classifiers, neighbours and k-means do on enc(x), or without a model, on the rows themselves.

    With ``replace_clusters``, the clusters of k-means are scored as the model's own.
    """
    train, test = flat(data.x_train), flat(data.x_test)
    if model is not None:
        train, test = model.represent(train), model.represent(test)
    found = kmeans_labels(cell, train, test)
    numbers: Measured = {"nmi_of_representation": nmi(data.y_test, found)}
    if replace_clusters:
        numbers |= clustering_scores(data.y_test, found) | {"labels": found.tolist()}
    return numbers | probes(cell, train, test, data.y_test)


def probes(cell: Cell, train: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> Measured:
    """Accuracy of two linear probes and of 20 neighbours, all given the training labels."""
    y_train = load(cell.dataset, n=cell.rows, seed=cell.seed).y
    assert y_train is not None
    if cell.dataset == "digits":  # one split only: learn from every other image, test on the rest
        train, test, y_train, y_test = train[::2], test[1::2], y_train[::2], y_test[1::2]
    # One scale for all features: the paper's learning rate suits representations of about this size.
    unit = float(np.std(train)) or 1.0
    return {
        "probe": linear_probe(train, y_train, test, y_test),
        "sgd_probe": sgd_probe(train / unit, y_train, test / unit, y_test),
        "knn": knn_accuracy(train, y_train, test, y_test),
    }
