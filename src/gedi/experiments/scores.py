"""Numbers of a trained model beyond its clusters: representation, density, samples, and foreign images.

Labels are used here, after training, and nowhere before.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import torch

from gedi.data import load
from gedi.evaluation import (
    auroc,
    clustering_scores,
    feature_frechet,
    inception_fid,
    knn_accuracy,
    linear_probe,
    nmi,
    sgd_probe,
)
from gedi.experiments.cells import Cell, CellData, Measured, kmeans_labels
from gedi.experiments.plots import image_panels, save
from gedi.nets import ResNet8
from gedi.report.plane import walk_paths
from gedi.training.model import TrainedModel

CLASSES = {"svhn": 10, "cifar10": 10, "cifar100": 100}  # of the image data sets; also the number of clusters
INCEPTION = "GEDI_INCEPTION"  # variable with the path of the Inception weights: without it there is no FID
FEATURES = 32  # width of the untrained net: small, so that a few hundred samples are enough for a covariance
CHAINS, FRESH, LONGEST = 1_000, 128, 100  # samples from the buffer, samples by fresh chains, most steps of those
MOST = 10_000  # test images for which log p and its gradient are computed, at most
SHOWN = 32  # images per panel
WALKS = 2_000  # walks whose ends are compared with their beginnings

OOD = {"gradient": "ood_score", "log_density": "score_samples"}  # criteria, and the model's methods that compute them
IMAGE_SCORES = ("frechet_buffer", "frechet_fresh", "frechet_real", "frechet_noise", "fid_buffer", "fid_fresh")
IMAGE_SCORES += tuple(f"ood_{kind}_{data}" for kind in OOD for data in CLASSES)


def of_image_fit(cell: Cell, model: TrainedModel | None, data: CellData, *, picture: Path | None = None) -> Measured:
    """All numbers of the five image tables; ``picture`` is where samples are drawn. Nothing for a diverged fit."""
    if model is None:
        return {}
    train, test = represented(model, data)
    found = kmeans_labels(cell, train, test)
    numbers: Measured = {"nmi_of_representation": nmi(data.y_test, found)}
    if not model.has_clusters:
        numbers |= clustering_scores(data.y_test, found) | {"labels": found.tolist()}
    numbers |= probes(cell, train, test, data.y_test)
    samples = drawn(cell, model, data)
    if picture is not None:
        panels = {"from the buffer": samples["buffer"], "by fresh chains": samples["fresh"], "test set": data.x_test}
        save(image_panels({title: images[:SHOWN] for title, images in panels.items()}), picture)
    return numbers | of_samples(cell, samples, data) | of_foreign(cell, model, data)


# ---- representation ----


def of_representation(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """How well a linear classifier, neighbours and k-means do on enc(x)."""
    train, test = represented(model, data)
    found = kmeans_labels(cell, train, test)
    return {"nmi_of_representation": nmi(data.y_test, found)} | probes(cell, train, test, data.y_test)


def represented(model: TrainedModel | None, data: CellData) -> tuple[np.ndarray, np.ndarray]:
    """enc(x) of training and test rows; without a model, the rows themselves."""
    train, test = _rows(data.x_train), _rows(data.x_test)
    return (train, test) if model is None else (model.represent(train), model.represent(test))


def probes(cell: Cell, train: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> Measured:
    """Accuracy of two linear probes and of 20 neighbours that know the training rows' labels."""
    y_train = load(cell.dataset, n=cell.rows, seed=cell.seed).y
    assert y_train is not None
    if cell.dataset == "digits":  # one split only: learn from every other image, test on the rest
        train, test, y_train, y_test = train[::2], test[1::2], y_train[::2], y_test[1::2]
    # One unit for all features: the paper's learning rate suits representations of about this size.
    unit = float(np.std(train)) or 1.0
    return {
        "probe": linear_probe(train, y_train, test, y_test),
        "sgd_probe": sgd_probe(train / unit, y_train, test / unit, y_test),
        "knn": knn_accuracy(train, y_train, test, y_test),
    }


def lacks_probes(measured: Measured) -> bool:
    """Whether a fit was measured for a table without probes."""
    return "diverged" not in measured and "probe" not in measured


# ---- density ----


def of_foreign(cell: Cell, model: TrainedModel, data: CellData) -> Measured:
    """AUROC of the cell's test images against those of the other data sets, by -||d log p / dx|| and by log p."""
    criteria = {kind: getattr(model, method) for kind, method in OOD.items()}
    rows = _rows(some(data.x_test, MOST, cell.seed))
    own = {kind: score(rows) for kind, score in criteria.items()}
    numbers: Measured = {}
    for other in CLASSES:
        if other == cell.dataset:
            continue
        rows = _rows(some(load(other, split="test").x, cell.rows or MOST, cell.seed))
        numbers |= {f"ood_{kind}_{other}": auroc(own[kind], score(rows)) for kind, score in criteria.items()}
    return numbers


# ---- walks ----


def of_walks(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """The share of DAM's walks from training rows that end in another cluster."""
    if model is None:
        return {}
    x = _rows(data.x_train)
    paths = walk_paths(model, x, n=min(WALKS, len(x)), seed=cell.seed)
    return {"walk_crossing": float(np.mean(model.predict(paths[:, 0]) != model.predict(paths[:, -1])))}


def lacks_walks(measured: Measured) -> bool:
    """Whether a fit was measured for a table without walks."""
    return "diverged" not in measured and "walk_crossing" not in measured


# ---- samples ----


def drawn(cell: Cell, model: TrainedModel, data: CellData) -> dict[str, np.ndarray]:
    """Samples as images in bytes: chains of the buffer as training left them, and fresh chains."""
    steps = min(LONGEST, 40 * model.config.sampler.steps)
    found = {
        "buffer": model.scaler.inverse(model.chains[:CHAINS].numpy()),
        "fresh": model.sample(FRESH, seed=cell.seed, steps=steps, fresh=True),
    }
    shape = data.x_test.shape[1:]
    return {name: np.rint(np.clip(x, 0, 255)).astype(np.uint8).reshape(-1, *shape) for name, x in found.items()}


def of_samples(cell: Cell, samples: dict[str, np.ndarray], data: CellData) -> Measured:
    """Fréchet distances to the test images: by an untrained net, and by Inception if its weights are given.

    Two more do not depend on the model: those of training images and of noise.
    """
    generator = np.random.default_rng(cell.seed)
    noise = generator.integers(0, 256, (CHAINS, *data.x_test.shape[1:]), dtype=np.uint8)
    real = untrained_features(data.x_test)
    fakes = samples | {"real": some(data.x_train, CHAINS, cell.seed), "noise": noise}
    # If all chains of the buffer lag behind the data, the buffer is empty and there is nothing to measure.
    enough = {name: images for name, images in fakes.items() if len(images) > 1}
    numbers: Measured = {f"frechet_{n}": feature_frechet(real, untrained_features(x)) for n, x in enough.items()}
    if weights := os.environ.get(INCEPTION):
        numbers |= {f"fid_{n}": inception_fid(data.x_test, enough[n], weights) for n in samples if n in enough}
    return numbers


@torch.no_grad()
def untrained_features(images: np.ndarray) -> np.ndarray:
    """Features [n, 32] of images [n, H, W, C] in bytes, by a ResNet-8 with fixed random weights: equal for all fits."""
    net = _untrained(images.shape[-1])
    parts = []
    for start in range(0, len(images), 256):
        pixels = torch.from_numpy(images[start : start + 256]).permute(0, 3, 1, 2)
        parts.append(net(pixels.float() / 127.5 - 1))
    return torch.cat(parts).numpy()


@functools.cache
def _untrained(channels: int) -> ResNet8:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ResNet8(channels, FEATURES).eval().requires_grad_(False)


def some(x: np.ndarray, most: int, seed: int) -> np.ndarray:
    """All of ``x``, or ``most`` of its rows at random."""
    if len(x) <= most:
        return np.asarray(x)
    return x[np.sort(np.random.default_rng(seed).choice(len(x), most, replace=False))]


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)
