"""A cell is one fit and its numbers. Cells are kept in a file, so runs resume and experiments share fits."""

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
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from sklearn.cluster import AgglomerativeClustering, SpectralClustering
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import KNeighborsClassifier

from gedi import __version__, runs
from gedi.data import check_rows, load, toys
from gedi.data.sources import TEST_SEED_OFFSET, TOY_ROWS, TOYS
from gedi.errors import ConfigError, DataError
from gedi.evaluation import clustering_scores, density_scores
from gedi.experiments import Budget, Say
from gedi.experiments.workers import in_processes, tell
from gedi.files.writing import finite
from gedi.training.build import Prepared, prepare
from gedi.training.config import TrainingConfig, check, to_dict
from gedi.training.cost import estimate
from gedi.training.fit import fit_prepared
from gedi.training.guard import DivergedError, GuardWarning
from gedi.training.methods import ablate, with_method
from gedi.training.model import TrainedModel
from gedi.training.presets import preset
from gedi.training.progress import duration
from gedi.training.start import tightest_kmeans

CELLS, MODELS = "cells.jsonl", "models"
WATCHED = ("generative", "energy_size")  # terms whose largest value shows how calm a fit was
HEADLINES = {"nmi": "NMI", "auroc": "AUROC"}  # the first that a cell has is shown as its result
Measured = dict[str, Any]
THIN = 0.02  # standard deviation of the noise in columns added to a toy
SCORED = 10_000  # log p is computed for at most this many test rows
UNTRAINED = "untrained"  # k-means on the representation of GEDI's net before training

BASELINES: dict[str, dict[str, Any]] = {
    "kmeans": {"n_init": 10},
    "spectral": {"affinity": "nearest_neighbors", "n_neighbors": 10, "assign_labels": "kmeans"},
    "ward": {"linkage": "ward"},
}


@dataclass(frozen=True)
class Cell:
    """What is fitted, and on what data. ``None`` leaves it to the preset or the data set."""

    dataset: str
    n_clusters: int
    seed: int = 0  # of the data and of the fit
    method: str = "gedi"  # a name in `gedi.training.methods.METHODS` or `BASELINES`, or `UNTRAINED`
    preset: str | None = None
    variant: str = "full"  # names in `gedi.training.methods.ABLATIONS`, joined by " + "
    dam_steps: int | None = None  # T
    iterations: int | None = None  # cap on each step's iterations
    rows: int | None = None  # training points, and test points
    noise: float | None = None  # toys: standard deviation of the noise
    rotate: float = 0.0  # toys: degrees
    weights: tuple[float, float] | None = None  # moons: the share of points in each
    columns: int | None = None  # toys: pad to this many columns with thin noise, then rotate at random
    guarded: bool = True  # False: a run that diverges is still trained to the end
    asks_cost: ClassVar[bool] = False  # announce the cost before the fit, and keep the estimate with the time taken

    @property
    def key(self) -> str:
        """The same for cells that would give the same numbers, and usable as a file name.

        It covers the preset's settings, not its name: when a preset changes, its cells are new and do not reuse old
        numbers.
        """
        data = [self.dataset, self.n_clusters, self.seed, self.method]
        data += [self.rows, self.noise, self.rotate, self.weights, self.columns]
        text = json.dumps([__version__, data, self.settings()], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.dataset}-{self.method}-c{self.n_clusters}-s{self.seed}-{digest}"

    def settings(self) -> dict[str, Any]:
        """The settings of the fit, as plain values."""
        return dict(BASELINES[self.method]) if self.method in BASELINES else to_dict(self.config())

    def config(self) -> TrainingConfig:
        """The training settings, before any that depend on the data are filled in. Baselines have none."""
        image_shape = self.image_shape()
        n_features = math.prod(image_shape) if image_shape else self.columns or _columns(self.dataset)
        method = "gedi" if self.method == UNTRAINED else self.method
        config = with_method(preset(self.preset, n_features=n_features, image_shape=image_shape), method)
        ablate(config, self.variant)
        config.guard.action = "rollback" if self.guarded else "watch"
        if self.dam_steps is not None:
            config.dam.steps = self.dam_steps
        if self.iterations is not None:
            for stage in (config.step1, config.step2):
                stage.iterations = min(stage.iterations, self.iterations)
        if self.method == UNTRAINED:
            config.objective, config.step1.iterations, config.step2.iterations = {}, 0, 0
        return config

    def image_shape(self) -> tuple[int, ...] | None:
        """The shape of the data's images, if it has any. It decides the preset."""
        return _image_shape(self.dataset)

    def __str__(self) -> str:
        parts = [self.dataset, self.method, self.variant if self.variant != "full" else "", self.preset]
        parts += [f"T={self.dam_steps}" if self.dam_steps is not None else "", f"c={self.n_clusters}"]
        parts += [f"noise {self.noise:g}" if self.noise is not None else "", f"{self.rotate:g}°" if self.rotate else ""]
        parts += ["/".join(f"{share:g}" for share in self.weights or ())]
        parts += [f"{self.columns} columns" if self.columns else "", f"seed {self.seed}"]
        return " ".join(filter(None, parts))


AnyCell = TypeVar("AnyCell", bound=Cell)


def cells_of(budget: Budget, cell: AnyCell, *, laptop_seeds: int | None = None) -> list[AnyCell]:
    """The cell with every seed, starting at its own, at the scale of the budget.

    The cell's own preset wins. ``laptop_seeds`` replaces the number of seeds at the laptop scale, unless the user chose
    it.
    """
    if cell.method not in BASELINES:
        cell = replace(cell, preset=cell.preset or budget.preset, iterations=budget.iterations)
    is_default = budget.scale == "laptop" and not budget.gives_seeds
    n = laptop_seeds if laptop_seeds and is_default else len(budget.seeds)
    return [replace(cell, rows=budget.rows or cell.rows, seed=cell.seed + k) for k in range(n)]


class CellData(NamedTuple):
    """Training rows without labels, and a labelled test split that is only used for scores."""

    x_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


Fit = tuple[np.ndarray, Measured, TrainedModel | None]  # clusters of the test rows, numbers, and the model if any
More = Callable[[Cell, TrainedModel | None, CellData], Measured]


def cell_data(cell: Cell) -> CellData:
    """Toys: 2,000 training and 1,000 fresh test points. Other data: its own splits (digits: all rows in both)."""
    if cell.dataset in TOYS:
        options = {k: v for k, v in (("noise", cell.noise), ("weights", cell.weights)) if v is not None}
        make = functools.partial(TOYS[cell.dataset], **options)
        x_train, _ = make(cell.rows or TOY_ROWS["train"], seed=cell.seed)
        x_test, y_test = make(cell.rows or TOY_ROWS["test"], seed=cell.seed + TEST_SEED_OFFSET)
        if cell.rotate:
            x_train, x_test = toys.rotate(x_train, cell.rotate), toys.rotate(x_test, cell.rotate)
        if cell.columns:
            x_train, x_test = in_columns((x_train, x_test), cell.columns, cell.seed)
        return CellData(x_train, x_test, y_test)
    train, test = (load(cell.dataset, split=split, n=cell.rows, seed=cell.seed) for split in ("train", "test"))
    if test.y is None:
        raise ConfigError(f"The data set {cell.dataset!r} has no labels to compare with.")
    # Images may be stored as rows; in their own shape, the fit treats them as images.
    x_train, x_test = (s.x.reshape(len(s.x), *(s.image_shape or s.x.shape[1:])) for s in (train, test))
    return CellData(x_train, x_test, test.y)


def in_columns(tables: Iterable[np.ndarray], columns: int, seed: int) -> list[np.ndarray]:
    """The tables padded with columns of noise with standard deviation `THIN`, all under the same random rotation."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((columns, columns)))
    wide = [np.hstack([x, THIN * rng.standard_normal((len(x), columns - x.shape[1]))]) for x in tables]
    return [(x @ rotation).astype(np.float32) for x in wide]


def measure_cell(
    cell: Cell,
    models: Path | None = None,
    data: CellData | None = None,
    *,
    more: More | None = None,
    fit: Callable[[Cell, CellData, Path | None], Fit] | None = None,
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
    try:
        fit = fit or (_fit_baseline if cell.method in BASELINES else _fit_gedi)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*columns are constant")  # the dark border of the digits
            warnings.filterwarnings("ignore", message="Graph is not fully connected")  # spectral clustering copes
            warnings.simplefilter("ignore", GuardWarning)  # the guard's events are kept with the numbers
            labels, numbers, model = fit(cell, data, models)
    except DivergedError as error:
        # A diverged model cannot tell rows apart: it counts as one cluster, with NMI 0.
        labels, diverged = np.zeros(len(data.x_test), dtype=int), {"diverged": str(error), "guard": error.events}
        numbers = {"objective": None, "gradient_evaluations": None, "config": cell.settings()}
        model = None
    seconds = time.process_time() - began
    if model is not None and model.has_density:
        rows = some(data.x_test, SCORED, cell.seed)
        with suppress(DataError):  # an unguarded run may have lost its density: log p is not a number
            numbers |= density_scores(model, rows.reshape(len(rows), -1), seed=cell.seed)
    if more is not None and not diverged:
        numbers |= more(cell, model, data)
    measured = {"key": cell.key, "cell": asdict(cell), **clustering_scores(data.y_test, labels), **diverged}
    measured |= {"seconds": round(seconds, 2), "labels": labels.tolist(), **numbers, "provenance": runs.provenance()}
    shuffled = np.random.default_rng(cell.seed).permutation(measured["labels"])
    measured["random_labels"] = clustering_scores(data.y_test, shuffled)
    return json.loads(json.dumps(finite(measured)))


def run_cells(
    cells: Iterable[Cell],
    out: Path,
    jobs: int,
    say: Say,
    *,
    keep_models: bool = False,
    measure: Callable[[Cell, Path | None], Measured] = measure_cell,
    needs: str | None = None,
) -> dict[Cell, Measured]:
    """Numbers of all cells; those not yet in ``out/cells.jsonl`` are run in ``jobs`` processes of one thread each.

    Every cell is written as soon as it is finished, so an interrupted run resumes where it stopped. A cell is run again
    if it lacks the number called ``needs``, or a model that is to be kept.
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
    tasks = [(cell, models) for cell in missing.values()]
    with closing(in_processes(measure, tasks, jobs, say)) as finished:
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
    return f"{HEADLINES[name]} {measured[name]:.3f}"


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
    return check_rows(x.reshape(len(x), -1), n_clusters=None, images=x.dtype == np.uint8)


def _fit_gedi(cell: Cell, data: CellData, models: Path | None) -> Fit:
    ready, test = prepared(cell, data), _checked(data.x_test)
    expected = estimate(ready) if cell.asks_cost else None
    if expected:
        tell(f"{cell}: {expected.in_words(ready.config)}")
    model = fit_prepared(ready, seed=fit_seed(cell))
    if models is not None:
        _keep(model, models / cell.key)
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


def _fit_baseline(cell: Cell, data: CellData, models: Path | None) -> Fit:
    x, x_test = (rows.reshape(len(rows), -1).astype(np.float32) for rows in (data.x_train, data.x_test))
    numbers = {"objective": None, "gradient_evaluations": 0, "config": cell.settings()}
    if cell.method == "kmeans":
        return kmeans_labels(cell, x, x_test), numbers, None
    make = {"spectral": functools.partial(SpectralClustering, random_state=cell.seed), "ward": AgglomerativeClustering}
    found = make[cell.method](cell.n_clusters, **BASELINES[cell.method]).fit_predict(x)
    # These cannot label new points, so a test point gets the label of the nearest training point.
    nearest = KNeighborsClassifier(n_neighbors=1).fit(x, found)
    return np.asarray(nearest.predict(x_test)), numbers, None


def some(x: np.ndarray, most: int, seed: int) -> np.ndarray:
    """All of ``x``, or ``most`` of its rows at random."""
    if len(x) <= most:
        return np.asarray(x)
    return x[np.sort(np.random.default_rng(seed).choice(len(x), most, replace=False))]


@functools.cache
def _columns(dataset: str) -> int:
    """The width of rows that are not images."""
    return (TOYS[dataset](2)[0] if dataset in TOYS else load(dataset).x).shape[1]


@functools.cache
def _image_shape(dataset: str) -> tuple[int, ...] | None:
    return None if dataset in TOYS else load(dataset).image_shape
