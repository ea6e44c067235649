"""A cell is one fit and its numbers. Cells are kept in a file, so that runs resume and experiments share fits."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.neighbors import KNeighborsClassifier

from gedi import __version__, runs
from gedi.data import check_rows, load, toys
from gedi.data.sources import TEST_SEED_OFFSET, TOY_ROWS, TOYS
from gedi.errors import ConfigError
from gedi.evaluation import clustering_scores
from gedi.experiments import Budget, Say
from gedi.experiments.workers import in_processes, tell
from gedi.files.writing import finite
from gedi.training.build import prepare
from gedi.training.config import TrainingConfig, check, to_dict
from gedi.training.cost import duration, estimate
from gedi.training.fit import fit_prepared
from gedi.training.guard import DivergedError, GuardWarning
from gedi.training.methods import ABLATIONS, with_method
from gedi.training.model import TrainedModel
from gedi.training.presets import preset

CELLS, MODELS = "cells.jsonl", "models"
WATCHED = ("generative", "energy_size")  # terms whose largest value shows how calm a fit was
Measured = dict[str, Any]
# Defaults of settings that were added after cells had been published. They are left out of the key, so that the cells
# published before are still found.
ADDED_LATER = {("net", "norm"): "none", ("dam", "every"): 1, ("start", "tries"): 1, ("start", "heads"): False}

BASELINES: dict[str, dict[str, Any]] = {
    "kmeans": {"n_init": 10},
    "spectral": {"affinity": "nearest_neighbors", "n_neighbors": 10, "assign_labels": "kmeans"},
    "ward": {"linkage": "ward"},
}
ESTIMATORS: dict[str, Any] = {"kmeans": KMeans, "spectral": SpectralClustering, "ward": AgglomerativeClustering}


@dataclass(frozen=True)
class Cell:
    """What is fitted, and on what data. ``None`` leaves it to the preset or the data set."""

    dataset: str
    n_clusters: int
    seed: int = 0  # of the data and of the fit
    method: str = "gedi"  # gedi, jem, swav, kmeans, spectral, ward
    preset: str | None = None
    variant: str = "full"  # a name of `gedi.training.methods.ABLATIONS`
    dam_steps: int | None = None  # T
    iterations: int | None = None  # cap on each step's iterations
    rows: int | None = None  # training points, and test points
    noise: float | None = None  # toys: standard deviation of the noise
    rotate: float = 0.0  # toys: degrees
    weights: tuple[float, float] | None = None  # moons: shares of the two
    guarded: bool = True  # False: a run that diverges is trained to its end all the same
    asks_cost: ClassVar[bool] = False  # announce the cost before the fit, and keep the estimate beside the time taken

    @property
    def key(self) -> str:
        """Equal for cells that would give equal numbers, and usable as a file name.

        It covers the settings that a preset stands for, not the preset's name: if the preset changes, the cell is new
        and does not get the old numbers.
        """
        data = [self.dataset, self.n_clusters, self.seed, self.method]
        data += [self.rows, self.noise, self.rotate, list(self.weights) if self.weights else None]
        settings = self.settings()
        for (group, name), default in ADDED_LATER.items():
            if settings.get(group, {}).get(name) == default:
                del settings[group][name]
        text = json.dumps([__version__, data, settings], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.dataset}-{self.method}-c{self.n_clusters}-s{self.seed}-{digest}"

    def settings(self) -> dict[str, Any]:
        """The settings of the fit, as plain values."""
        if self.method in BASELINES:
            return dict(BASELINES[self.method])
        return to_dict(self.config())

    def config(self) -> TrainingConfig:
        """The training settings, before those that depend on the data are filled in. Baselines have none."""
        if self.variant not in ABLATIONS:
            raise ConfigError(f"Unknown variant {self.variant!r}: choose one of {', '.join(ABLATIONS)}.")
        image_shape = self.image_shape()
        n_features = math.prod(image_shape) if image_shape else 2
        config = with_method(preset(self.preset, n_features=n_features, image_shape=image_shape), self.method)
        ABLATIONS[self.variant](config)
        config.guard.action = "rollback" if self.guarded else "watch"
        if self.dam_steps is not None:
            config.dam.steps = self.dam_steps
        if self.iterations is not None:
            for stage in (config.step1, config.embedding, config.step2):
                stage.iterations = min(stage.iterations, self.iterations)
        return config

    def image_shape(self) -> tuple[int, ...] | None:
        """The shape of the data's images, which the choice of preset depends on."""
        return _image_shape(self.dataset)

    def __str__(self) -> str:
        parts = [self.dataset, self.method, self.variant if self.variant != "full" else "", self.preset or ""]
        parts += [f"T={self.dam_steps}" if self.dam_steps is not None else "", f"c={self.n_clusters}"]
        parts += [f"noise {self.noise:g}" if self.noise is not None else "", f"{self.rotate:g}°" if self.rotate else ""]
        parts += ["/".join(f"{w:g}" for w in self.weights) if self.weights else "", f"seed {self.seed}"]
        return " ".join(p for p in parts if p)


def cells_of(budget: Budget, dataset: str, n_clusters: int, method: str = "gedi", **changes: Any) -> list[Cell]:
    """One cell per seed, at the scale of the budget; baselines have no preset and no iterations."""
    settings: dict[str, Any] = {"rows": budget.rows}
    if method not in BASELINES:
        settings |= {"preset": budget.preset, "iterations": budget.iterations}
    return [Cell(dataset, n_clusters, seed, method, **(settings | changes)) for seed in budget.seeds]


class CellData(NamedTuple):
    """Training rows without labels, and a labelled test split for the scores alone."""

    x_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


Fit = tuple[np.ndarray, Measured, TrainedModel | None]  # labels of the test rows, numbers, and the model if any
More = Callable[[Cell, TrainedModel | None, CellData], Measured]


def cell_data(cell: Cell) -> CellData:
    """Toys: 2,000 points to train on and 1,000 fresh ones to test. Other data: its own splits (digits: all, twice)."""
    if cell.dataset in TOYS:
        options = {k: v for k, v in (("noise", cell.noise), ("weights", cell.weights)) if v is not None}
        make = functools.partial(TOYS[cell.dataset], **options)
        x_train, _ = make(cell.rows or TOY_ROWS["train"], seed=cell.seed)
        x_test, y_test = make(cell.rows or TOY_ROWS["test"], seed=cell.seed + TEST_SEED_OFFSET)
        if cell.rotate:
            x_train, x_test = toys.rotate(x_train, cell.rotate), toys.rotate(x_test, cell.rotate)
        return CellData(x_train, x_test, y_test)
    train, test = (load(cell.dataset, split=split, n=cell.rows, seed=cell.seed) for split in ("train", "test"))
    if test.y is None:
        raise ConfigError(f"The data set {cell.dataset!r} has no labels to compare with.")
    return CellData(_images(train.x, train.image_shape), _images(test.x, test.image_shape), test.y)


def measure(
    cell: Cell, models: Path | None = None, data: CellData | None = None, *, more: More | None = None
) -> Measured:
    """Fit one cell and measure it on its test split; with ``models``, the trained model is saved there too.

    ``more`` adds numbers of the trained model. It may replace the scores and labels, for models without clusters. The
    time it takes is not counted as the fit's.
    """
    data = data or cell_data(cell)
    began = time.monotonic()
    diverged: dict[str, Any] = {}
    try:
        fit = _fit_baseline if cell.method in BASELINES else _fit_gedi
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*columns are constant")  # the dark frame of the digits
            warnings.simplefilter("ignore", GuardWarning)  # its events are kept with the numbers
            labels, numbers, model = fit(cell, data, models)
    except DivergedError as error:
        # A diverged model cannot tell rows apart: one cluster, NMI 0.
        labels, diverged = np.zeros(len(data.x_test), dtype=int), {"diverged": str(error), "guard": error.events}
        numbers = {"objective": None, "walk_crossing": None, "gradient_evaluations": None, "config": cell.settings()}
        model = None
    seconds = time.monotonic() - began
    if more is not None:
        numbers |= more(cell, model, data)
    measured = {"key": cell.key, "cell": asdict(cell), **clustering_scores(data.y_test, labels), **diverged}
    measured |= {"seconds": round(seconds, 2), "labels": labels.tolist(), **numbers, "provenance": runs.provenance()}
    return json.loads(json.dumps(finite(measured)))


def run_cells(
    cells: Iterable[Cell],
    out: Path,
    jobs: int,
    say: Say,
    *,
    keep_models: bool = False,
    measure: Callable[[Cell, Path | None], Measured] = measure,
    lacks: Callable[[Measured], bool] = lambda measured: False,
) -> dict[Cell, Measured]:
    """Numbers of all cells; those not yet in ``out/cells.jsonl`` are run in ``jobs`` processes of one thread each.

    Every cell is written as soon as it is finished, so an interrupted run resumes where it stopped. A cell that
    ``lacks`` something is measured again.
    """
    wanted = {cell: cell.key for cell in cells}
    models = out / MODELS if keep_models else None
    found = {
        key: measured
        for key, measured in read_cells(out / CELLS).items()
        if (models is None or not has_model(measured) or (models / key).is_dir()) and not lacks(measured)
    }
    missing = {key: cell for cell, key in wanted.items() if key not in found}
    kept = len(set(wanted.values())) - len(missing)
    if kept:
        say(f"{kept} of {kept + len(missing)} fits are already in {out / CELLS}")
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    if any(cell.asks_cost for cell in missing.values()):
        say(f"{len(missing)} fits to do, {min(jobs, len(missing))} at a time; each states its cost before it starts")
    tasks = [(cell, models) for cell in missing.values()]
    with closing(in_processes(measure, tasks, jobs, say)) as finished:
        for done, measured in enumerate(finished, start=1):
            _append(out / CELLS, measured)
            found[measured["key"]] = measured
            left = (time.monotonic() - began) / done * (len(missing) - done)
            result = "diverged" if "diverged" in measured else f"NMI {measured['nmi']:.3f}"
            time_left = f", about {duration(left)} left" if done < len(missing) else ""
            cell = missing[measured["key"]]
            say(f"{done}/{len(missing)}  {cell}: {result}, {duration(measured['seconds'])}{time_left}")
    return {cell: found[key] for cell, key in wanted.items()}


def read_cells(path: Path) -> dict[str, Measured]:
    """Finished cells by key. A line cut short by a kill is skipped: its cell counts as missing."""
    found: dict[str, Measured] = {}
    if not path.is_file():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            measured = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(measured, dict) and {"key", "cell", "nmi"} <= measured.keys():
            found[measured["key"]] = measured
    return found


def has_model(measured: Measured) -> bool:
    """Whether the cell's fit ends in a model that can be kept."""
    return "diverged" not in measured and measured["cell"]["method"] not in BASELINES


def _append(path: Path, measured: Measured) -> None:
    cut_short = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut_short + json.dumps(measured, separators=(",", ":")) + "\n")


# ---- fitting ----


def _fit_gedi(cell: Cell, data: CellData, models: Path | None) -> Fit:
    # Drawn as scikit-learn draws it, so that the fit equals GEDI(..., random_state=cell.seed).
    seed = int(np.random.RandomState(cell.seed).randint(2**31 - 1))
    shape = data.x_train.shape[1:]
    is_bytes = data.x_train.dtype == np.uint8  # images: keep one byte per pixel rather than eight
    rows, test = (
        check_rows(x.reshape(len(x), -1), n_clusters=None, images=is_bytes) for x in (data.x_train, data.x_test)
    )
    ready = prepare(rows, check(cell.config()), cell.n_clusters, image_shape=shape if len(shape) == 3 else None)
    expected = estimate(ready) if cell.asks_cost else None
    if expected:
        tell(f"{cell}: {expected.in_words(ready.config)}")
    model = fit_prepared(ready, seed=seed)
    if models is not None:
        _keep(model, models / cell.key)
    names = ("objective", "walk_crossing", "gradient_evaluations", "guard")
    numbers = {name: model.results.get(name) for name in names} | {"config": to_dict(model.config)}
    if expected:
        numbers |= {"estimated_seconds": expected.seconds, "training_seconds": model.results["seconds"]}
    largest = {name: max((abs(line[name]) for line in model.history if name in line), default=None) for name in WATCHED}
    return model.predict(test), numbers | {"largest": largest}, model


def _keep(model: TrainedModel, folder: Path) -> None:
    """Save whole or not at all."""
    temporary = folder.with_name(f".{folder.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    with runs.claimed(temporary):
        runs.save(model, temporary)
    os.replace(temporary, folder)


def _fit_baseline(cell: Cell, data: CellData, models: Path | None) -> Fit:
    x, x_test = (rows.reshape(len(rows), -1) for rows in (data.x_train, data.x_test))
    seed = {} if cell.method == "ward" else {"random_state": cell.seed}  # Ward leaves nothing to chance
    with warnings.catch_warnings():
        # Rings far apart make an unconnected graph. Spectral clustering warns of it, and copes.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        fitted = ESTIMATORS[cell.method](cell.n_clusters, **BASELINES[cell.method], **seed).fit(x)
    if cell.method != "kmeans":  # it cannot label new points: they get the label of the nearest training point
        fitted = KNeighborsClassifier(n_neighbors=1).fit(x, fitted.labels_)
    numbers = {"objective": None, "walk_crossing": None, "gradient_evaluations": 0, "config": cell.settings()}
    return np.asarray(fitted.predict(x_test)), numbers, None


@functools.cache
def _image_shape(dataset: str) -> tuple[int, ...] | None:
    return None if dataset in TOYS else load(dataset).image_shape


def _images(x: np.ndarray, image_shape: tuple[int, ...] | None) -> np.ndarray:
    """Images stored as rows, back in their shape, so that the fit knows them as images."""
    return x.reshape(len(x), *image_shape) if image_shape else x
