"""Numbers of a trained model beyond its clusters: representation, density, samples, walks, and foreign images.

Labels are used only here, after training.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np

from gedi.data import load
from gedi.evaluation import (
    auroc,
    clustering_scores,
    inception_fid,
    knn_accuracy,
    linear_probe,
    nmi,
    sgd_probe,
    typicality,
)
from gedi.evaluation.small_net import Recogniser, sample_scores, train_recogniser
from gedi.experiments.cell_fits import SCORED, kmeans_labels, some
from gedi.experiments.cells import Cell, CellData, Measured
from gedi.experiments.plots import image_panels, save
from gedi.report.measures import walk_paths
from gedi.training.model import TrainedModel

CLASSES = {"svhn": 10, "cifar10": 10, "cifar100": 100}  # image data sets, and their number of classes and clusters
INCEPTION = "GEDI_INCEPTION"  # environment variable with the path of the Inception weights; without it, no FID
CHAINS, FRESH, MOST_STEPS = 1_000, 128, 100  # samples from the buffer; fresh chains, and their steps at most
IMAGES_SHOWN = 32  # images per panel
WALKS_COMPARED = 2_000  # walks whose start and end are compared

OOD_CRITERIA = {
    "gradient": "ood_score",
    "log_density": "score_samples",
}  # criteria, and the model's methods that compute them


def of_image_fit(cell: Cell, model: TrainedModel | None, data: CellData, *, picture: Path | None = None) -> Measured:
    """All numbers of the five image tables; none without a model. ``picture`` is where samples are drawn."""
    if model is None:
        return {}
    numbers = of_representation(cell, model, data, replace_clusters=not model.has_clusters)
    samples = drawn(cell, model, data)
    if picture is not None:
        panels = {"from the buffer": samples["buffer"], "from fresh chains": samples["fresh"], "test set": data.x_test}
        save(image_panels({title: images[:IMAGES_SHOWN] for title, images in panels.items()}), picture)
    return numbers | of_samples(cell, samples, data) | of_foreign(cell, model, data)


# ---- representation ----


def of_representation(
    cell: Cell, model: TrainedModel | None, data: CellData, *, replace_clusters: bool = False
) -> Measured:
    """How well linear classifiers, neighbours and k-means do on enc(x), or without a model, on the rows themselves.

    With ``replace_clusters``, the clusters of k-means are scored as the model's own.
    """
    train, test = _rows(data.x_train), _rows(data.x_test)
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


# ---- density ----


def of_foreign(cell: Cell, model: TrainedModel, data: CellData) -> Measured:
    """AUROC of the cell's test images against those of the other data sets, by gradient, log p and typicality."""
    criteria = {kind: getattr(model, method) for kind, method in OOD_CRITERIA.items()}
    rows = _rows(some(data.x_test, SCORED, cell.seed))
    own, parts = {kind: score(rows) for kind, score in criteria.items()}, model.log_density_parts(rows)
    numbers: Measured = {}
    for other in CLASSES:
        if other == cell.dataset:
            continue
        rows = _rows(some(load(other, split="test").x, cell.rows or SCORED, cell.seed))
        foreign = {kind: score(rows) for kind, score in criteria.items()}
        numbers |= {f"ood_{kind}_{other}": auroc(own[kind], scored) for kind, scored in foreign.items()}
        foreign_parts = model.log_density_parts(rows)
        typical = auroc(typicality(parts, parts), typicality(foreign_parts, parts))
        numbers[f"ood_typicality_{other}"] = typical
    return numbers


# ---- walks ----


def of_walks(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """The share of DAM's walks from training rows that end in another cluster."""
    assert model is not None
    x = _rows(data.x_train)
    paths = walk_paths(model, x, n=min(WALKS_COMPARED, len(x)), seed=cell.seed)
    return {"walk_crossing": float(np.mean(model.predict(paths[:, 0]) != model.predict(paths[:, -1])))}


# ---- samples ----


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


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)
