"""Does a density of MNIST tell its digits from other images? By log p, and by each of the terms that it consists of."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from gedi.data import known_datasets, load
from gedi.data.augment import LUMINANCE
from gedi.evaluation.ood import auroc
from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import SCORED, flat, measure_cell, of_representation, some
from gedi.experiments.cells import Cell, CellData, Measured
from gedi.experiments.tabulate import Text, mean_std, part, tabulate
from gedi.training.model import TrainedModel

PATCH = 7  # pixels: the side of the patches that are shuffled
FOREIGN_SCORES = {"log p": "log_p", "mixture alone": "mixture", "energy alone": "energy", "typicality": "typicality"}


def table_foreign(request: Request) -> Outcome:
    """AUROC of MNIST's test images against other images of the same size."""
    return tabulate(
        request,
        "MNIST: AUROC of the density against foreign images",
        parts=("method",),
        cells={("gedi",): Cell("mnist", 10)},
        rows=[(name,) for name in FOREIGN],
        varies="the fit changes",
        columns={"foreign images": part()} | {title: _column(score) for title, score in FOREIGN_SCORES.items()},
        notes=[
            "As many foreign images as test images. log p is the sum of two terms: a mixture of Gaussians, fitted "
            "before training, and the energy, which shares the encoder with the clusters. The columns 'alone' score "
            "images by one of them, in the same fits.",
            f"Patches are of {PATCH}x{PATCH} pixels; noise is uniform; SVHN is grey, cropped to the size of MNIST.",
        ],
        measure=functools.partial(measure_cell, more=_of_mnist),
        needs=_named("log_p", "noise"),
    )


def _named(score: str, foreign: str) -> str:
    return f"auroc by {score}, {foreign}"


def _column(score: str) -> Text:
    return lambda results, row: mean_std(results.groups["gedi",], _named(score, row[0]))


def shuffled_patches(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Squares of every image in another order."""
    n, height, width, channels = images.shape
    down, across = height // PATCH, width // PATCH
    cut = images.reshape(n, down, PATCH, across, PATCH, channels).swapaxes(2, 3).reshape(n, down * across, -1)
    order = rng.permuted(np.tile(np.arange(down * across), (n, 1)), axis=1)
    cut = np.take_along_axis(cut, order[:, :, None], axis=1).reshape(n, down, across, PATCH, PATCH, channels)
    return cut.swapaxes(2, 3).reshape(images.shape)


def house_numbers(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """SVHN without colour; empty if its files are missing."""
    if not any(info.name == "svhn" and info.present for info in known_datasets()):
        return images[:0]
    grey = load("svhn", split="test").x[:, 2:30, 2:30] @ np.array(LUMINANCE)
    return np.rint(grey).astype(np.uint8)[: len(images), :, :, None]


FOREIGN: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "noise": lambda images, rng: rng.integers(0, 256, images.shape, dtype=np.uint8),
    "shuffled pixels": lambda images, rng: rng.permuted(images, axis=0),  # every pixel from another image
    "shuffled patches": shuffled_patches,
    "inverted": lambda images, rng: 255 - images,
    "turned by 90°": lambda images, rng: np.rot90(images, axes=(1, 2)),
    "SVHN": house_numbers,
}


def _of_mnist(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """What table-mnist measures, so that both share their fits, and the scores of foreign images."""
    numbers = of_representation(cell, model, data)
    if model is None or not model.has_density:
        return numbers
    images, rng = some(data.x_test, SCORED, cell.seed), np.random.default_rng(cell.seed)
    own, typical = model.log_density_parts(flat(images)), model.typicality(flat(images))
    for name, make in FOREIGN.items():
        if not len(made := make(images, rng)):
            continue
        parts = model.log_density_parts(flat(made))
        scores = {
            "log_p": (own.sum(1), parts.sum(1)),
            "energy": (own[:, 0], parts[:, 0]),
            "mixture": (own[:, -1], parts[:, -1]),
            "typicality": (typical, model.typicality(flat(made))),
        }
        numbers |= {_named(score, name): auroc(*values) for score, values in scores.items()}
    return numbers
