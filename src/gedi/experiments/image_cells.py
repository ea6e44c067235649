"""The fits behind the image tables: what each row trains, for how long, and what is measured."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gedi import runs
from gedi.data import load
from gedi.evaluation import Recogniser, inception_fid, ood_scores, sample_scores, train_recogniser
from gedi.experiments import Budget
from gedi.experiments.cell_fits import (
    CELLS,
    MODELS,
    SCORED,
    flat,
    measure_cell,
    of_representation,
    read_cells,
    some,
)
from gedi.experiments.cells import UNTRAINED, Cell, CellData, Measured, Row, cell_data, cells_of
from gedi.experiments.plots import image_panels, save
from gedi.experiments.tabulate import METHOD_NAMES
from gedi.objectives.generative import MOST_NUMBERS, density_of
from gedi.objectives.term import uses_walks
from gedi.training.config import TrainingConfig
from gedi.training.model import TrainedModel
from gedi.training.presets import preset
from gedi.training.state import TRAINED

CLASSES = {"svhn": 10, "cifar10": 10, "cifar100": 100}  # data sets, and their number of classes and clusters
TITLES = {"svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
SHAPE = (32, 32, 3)
LAPTOP = "images"  # the preset of the laptop scale
LAPTOP_ITERATIONS = 500  # of step 2: about a minute on one core; `benchmarks/photos.py` trains for longer
INCEPTION = "GEDI_INCEPTION"  # environment variable with the path of the Inception weights; without it, no FID
CHAINS, FRESH, MOST_STEPS = 1_000, 128, 100  # samples from the buffer; fresh chains, and their steps at most
IMAGES_SHOWN = 32  # images per panel


COMPARED_METHODS = ("jem", "barlow", "swav", "simclr", "gedi")
# The paper's ablation, whatever our default is: its GEDI has one encoder and L_NF.
ABLATIONS = {
    "no-nf-2-encoders": Row("no NF, 2 encoders", variant="no NF + two encoders"),
    "no-nf": Row("no NF", variant="no NF + one encoder"),
    "with-nf": Row("with L_NF", variant="with L_NF + one encoder"),
}
CONTROLS = {  # of our default
    "no-density": Row("no density", variant="no density"),
    "no-contrastive": Row("no contrastive term", variant="no contrastive term"),
}
ROWS = {method: Row(METHOD_NAMES[method], method) for method in COMPARED_METHODS} | ABLATIONS | CONTROLS
BASELINE_ROWS = {"kmeans": Row("k-means of pixels", "kmeans"), UNTRAINED: Row(METHOD_NAMES[UNTRAINED], UNTRAINED)}


@dataclass(frozen=True)
class ImageCell(Cell):
    """One fit on images of 32 x 32 pixels, by a named preset."""

    asks_cost = True

    def row_shape(self) -> tuple[int, ...]:
        return SHAPE

    def config(self) -> TrainingConfig:
        config = super().config()
        if self.method == UNTRAINED:
            return config
        if self.preset == LAPTOP:
            config.augment.flip = preset(f"paper-{self.dataset}", n_features=2).augment.flip
            config.step2.iterations = min(config.step2.iterations, LAPTOP_ITERATIONS)
            if (self.method, self.variant) != ("gedi", "full"):
                hold_to(config, passes(replace(self, method="gedi", variant="full").config()))
        if self.preset == f"paper-{self.dataset}" and self.method != "gedi":
            # `with_method` gives a baseline the iterations of both of GEDI's steps; the paper gives it those of one.
            config.step1.iterations //= 2
            config.step2.iterations //= 2
        return config

    @property
    def row(self) -> str:
        """The name of its row in `ROWS` or `BASELINE_ROWS`."""
        rows = ROWS | BASELINE_ROWS
        return next(name for name, row in rows.items() if (row.method, row.variant) == (self.method, self.variant))

    def picture(self, out: Path) -> Path:
        """Where its samples are drawn."""
        return out / f"samples-{self.dataset}-{self.row}-s{self.seed}.png"


def image_cells(budget: Budget, data: str, row: str) -> list[ImageCell]:
    """The cells of one row on one data set, one per seed."""
    _, method, variant, _ = (ROWS | BASELINE_ROWS)[row]
    preset = {"smoke": "smoke", "laptop": LAPTOP, "paper": f"paper-{data}"}[budget.scale]
    cell = ImageCell(data, CLASSES[data], method=method, variant=variant)
    return cells_of(replace(budget, preset=preset), cell)


def measure_images(cell: Cell, *, out: Path) -> Measured:
    """Fit, and measure everything the five tables show; samples of a trained density are drawn in ``out``.

    The model is kept there too. If it was kept by an earlier run, only its samples are measured again.
    """
    assert isinstance(cell, ImageCell)
    model = out / MODELS / cell.key
    if model.is_dir() and (before := read_cells(out / CELLS).get(cell.key)):
        data = cell_data(cell)
        return before | of_samples(cell, drawn(cell, runs.load(model), data), data)
    more = functools.partial(of_image_fit, picture=cell.picture(out))
    return measure_cell(cell, more=more, models=out / MODELS)


def of_image_fit(cell: Cell, model: TrainedModel | None, data: CellData, *, picture: Path) -> Measured:
    """All numbers of the five image tables; without a model, probes of the pixels.

    Samples of a trained density are drawn in ``picture``.
    """
    if model is None:
        return of_representation(cell, None, data)
    numbers = of_representation(cell, model, data, replace_clusters=not model.has_clusters)
    samples = drawn(cell, model, data)
    if model.has_density:
        panels = {"from the buffer": samples["buffer"], "from fresh chains": samples["fresh"], "test set": data.x_test}
        save(image_panels({title: images[:IMAGES_SHOWN] for title, images in panels.items()}), picture)
    return numbers | of_samples(cell, samples, data) | of_foreign(cell, model, data)


def of_foreign(cell: Cell, model: TrainedModel, data: CellData) -> Measured:
    """AUROC of the cell's test images against those of the other data sets, by gradient, log p and typicality."""
    own, numbers = flat(some(data.x_test, SCORED, cell.seed)), {}
    for other in CLASSES:
        if other != cell.dataset:
            foreign = flat(some(load(other, split="test").x, cell.rows or SCORED, cell.seed))
            found = ood_scores(model, own, foreign)
            numbers |= {f"ood_{name.removeprefix('auroc_')}_{other}": score for name, score in found.items()}
    return numbers


def drawn(cell: Cell, model: TrainedModel, data: CellData) -> dict[str, np.ndarray]:
    """Samples as byte images: chains of the buffer as training left them, and fresh chains."""
    steps = min(MOST_STEPS, 40 * model.config.sampler.steps)
    found = {
        "buffer": model.rows_of(model.chains[:CHAINS]),
        "fresh": model.sample(FRESH, seed=cell.seed, steps=steps, fresh=True),
    }
    shape = data.x_test.shape[1:]
    return {name: np.rint(np.clip(x, 0, 255)).astype(np.uint8).reshape(-1, *shape) for name, x in found.items()}


def of_samples(cell: Cell, samples: dict[str, np.ndarray], data: CellData) -> Measured:
    """Samples against the test images, by a small net that knows the labels, and by Inception if its weights are given.

    For comparison, also training images and noise, which do not depend on the model.
    """
    generator = np.random.default_rng(cell.seed)
    noise = generator.integers(0, 256, (CHAINS, *data.x_test.shape[1:]), dtype=np.uint8)
    recogniser = recogniser_of(cell.dataset, cell.rows, cell.seed)
    fakes = samples | {"real": some(data.x_train, CHAINS, cell.seed), "noise": noise}
    # The buffer may be empty: chains that lag behind the data are dropped.
    enough = {name: images for name, images in fakes.items() if len(images) > 1}
    numbers: Measured = {}
    for name, images in enough.items():
        scores = sample_scores(recogniser, images, data.x_test)
        numbers |= {f"{score}_{name}": value for score, value in scores.items()}
    if weights := os.environ.get(INCEPTION):
        numbers |= {f"fid_{n}": inception_fid(data.x_test, enough[n], weights) for n in samples if n in enough}
    return numbers


@functools.cache
def recogniser_of(dataset: str, rows: int | None, seed: int) -> Recogniser:
    """A small net that has learned the labels of a cell's training images; all fits on them share it."""
    train = load(dataset, n=rows, seed=seed)
    assert train.y is not None
    return train_recogniser(train.x, train.y)


# ---- equal compute ----

UPDATE, LOG_P, GRADIENT = 3, 1, 2  # forward passes for a weight update, for log p, and for its gradient in x
DENOISING = 10  # an update through the gradient in x, as measured on a CPU


def passes(config: TrainingConfig) -> float:
    """The cost of training, in forward passes of one whole image through an encoder.

    A backward pass counts as two if weights are updated, and as one if only the image's gradient is needed.
    """
    return sum(getattr(config, name).iterations * per_iteration(config, name) for name in TRAINED)


def per_iteration(config: TrainingConfig, stage: str) -> float:
    """The mean cost of one iteration of a stage."""
    trained, size = density_of(config.objective), getattr(config, stage).batch_size
    density = every = 0
    if trained is not None:  # updates on data and on samples, and the chains that lead to the samples
        density, every = 2 * UPDATE + GRADIENT * config.sampler.steps, trained.every
        if not trained.needs_samples:
            density = DENOISING * min(1.0, MOST_NUMBERS / math.prod(SHAPE) / size)
    if stage == "step1":
        return size * density
    views = 2 * UPDATE * config.augment.resize**2
    if uses_walks(config.objective):
        views += (UPDATE + (GRADIENT + LOG_P) * config.dam.steps) / config.dam.every
    return size * (views + (density / every if every else 0))


def hold_to(config: TrainingConfig, total: float) -> None:
    """Set the iterations of the last stage so that all of training costs ``total`` passes."""
    last = next(name for name in reversed(TRAINED) if getattr(config, name).iterations)
    stage = getattr(config, last)
    stage.iterations = 0
    stage.iterations = max(1, round((total - passes(config)) / per_iteration(config, last)))
