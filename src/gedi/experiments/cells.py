"""A cell is one fit: its method, its settings and its data."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from gedi import __version__
from gedi.data import load, toys
from gedi.data.sources import TEST_SEED_OFFSET, TOY_ROWS, TOYS
from gedi.errors import ConfigError
from gedi.experiments import Budget
from gedi.experiments.variants import ablate
from gedi.training.config import TrainingConfig, to_dict
from gedi.training.methods import with_method
from gedi.training.presets import preset

Measured = dict[str, Any]
Labelled = tuple[np.ndarray, np.ndarray]  # rows [n, d], and a label for each
SMALL_SETS = {"moons": 2, "circles": 2, "digits": 10}  # sets that are fitted in seconds, and their clusters
THIN = 0.02  # standard deviation of the noise in columns added to a toy
NON_FINITE = (" is nan", " is inf", " is -inf")  # how an event of the guard ends that saw such a value
UNTRAINED = "untrained"  # k-means on the representation of GEDI's net before training

BASELINES: dict[str, dict[str, Any]] = {  # their settings; `cell_fits.CLUSTERERS` has their classes
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
    method: str = "gedi"  # a name in `gedi.training.methods.METHODS` or in `rivals`, or `UNTRAINED`
    preset: str | None = None
    variant: str = "full"  # names in `gedi.experiments.variants.VARIANT_CHANGES`, joined by " + "
    dam_steps: int | None = None  # T
    iterations: int | None = None  # cap on each step's iterations
    rows: int | None = None  # training points, and test points
    noise: float | None = None  # toys: standard deviation of the noise
    rotate: float = 0.0  # toys: degrees
    weights: tuple[float, float] | None = None  # moons: the share of points in each
    columns: int | None = None  # of a table; toys: pad to this many columns with thin noise, then rotate at random
    guarded: bool = True  # False: a run that diverges is still trained to the end
    asks_cost: ClassVar[bool] = False  # announce the cost before the fit, and keep the estimate with the time taken
    rivals: ClassVar[Mapping[str, dict[str, Any]]] = BASELINES  # other methods, and their settings

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
        return dict(self.rivals[self.method]) if self.is_rival else to_dict(self.config())

    @property
    def is_rival(self) -> bool:
        return self.method in self.rivals

    def config(self) -> TrainingConfig:
        """The training settings, before any that depend on the data are filled in. Rivals have none."""
        shape = self.row_shape()
        image_shape = shape if len(shape) == 3 else None
        method = "gedi" if self.method == UNTRAINED else self.method
        config = with_method(preset(self.preset, n_features=math.prod(shape), image_shape=image_shape), method)
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

    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row, or of one image [H, W, C]. It decides the preset."""
        return (self.columns,) if self.columns else _row_shape(self.dataset)

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
    if not cell.is_rival:
        cell = replace(cell, preset=cell.preset or budget.preset, iterations=budget.iterations)
    is_default = budget.scale == "laptop" and not budget.gives_seeds
    n = laptop_seeds if laptop_seeds and is_default else len(budget.seeds)
    return [replace(cell, rows=budget.rows or cell.rows, seed=cell.seed + k) for k in range(n)]


class Row(NamedTuple):
    """A row of a table: its title, and what its cells fit."""

    title: str
    method: str = "gedi"
    variant: str = "full"
    preset: str | None = None


class CellData(NamedTuple):
    """Training rows without labels, and a labelled test split that is only used for scores."""

    x_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


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


@functools.cache
def _row_shape(dataset: str) -> tuple[int, ...]:
    if dataset in TOYS:
        return TOYS[dataset](2)[0].shape[1:]
    data = load(dataset)
    return data.image_shape or data.x.shape[1:]
