"""All that one fit on images is asked: its representation, its samples, and what it makes of foreign images."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import torch

from gedi.data import load
from gedi.evaluation import auroc, clustering_scores, feature_frechet, inception_fid, nmi
from gedi.experiments.cells import Cell, CellData, Measured
from gedi.experiments.plots import image_panels, save
from gedi.experiments.representation import kmeans_labels, probes, represented
from gedi.nets import ResNet8
from gedi.training.model import TrainedModel

DATA = {"svhn": 10, "cifar10": 10, "cifar100": 100}  # and their classes, of which there are as many clusters
INCEPTION = "GEDI_INCEPTION"  # names the file of Inception weights: without it there is no FID
FEATURES = 32  # width of the untrained net: few, so that some hundred samples are enough for a covariance
CHAINS, FRESH, LONGEST = 1_000, 128, 100  # samples from the buffer, by fresh chains, and steps of those at most
MOST = 10_000  # images of a test set that log p and its gradient are asked about
SHOWN = 32  # images a panel

OOD = {"gradient": "ood_score", "log_density": "score_samples"}  # criteria, and who answers
SCORES = ("frechet_buffer", "frechet_fresh", "frechet_real", "frechet_noise", "fid_buffer", "fid_fresh")
SCORES += tuple(f"ood_{kind}_{data}" for kind in OOD for data in DATA)


def of_image_fit(cell: Cell, model: TrainedModel | None, data: CellData, *, picture: Path | None = None) -> Measured:
    """All numbers of the five tables; with ``picture``, samples are drawn into that file. Nothing if it diverged."""
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


# ---- samples ----


def drawn(cell: Cell, model: TrainedModel, data: CellData) -> dict[str, np.ndarray]:
    """Samples as images in bytes: chains of the buffer as training left them, and chains that start anew."""
    steps = min(LONGEST, 40 * model.config.sampler.steps)
    found = {
        "buffer": model.scaler.inverse(model.chains[:CHAINS].numpy()),
        "fresh": model.sample(FRESH, seed=cell.seed, steps=steps, fresh=True),
    }
    shape = data.x_test.shape[1:]
    return {name: np.rint(np.clip(x, 0, 255)).astype(np.uint8).reshape(-1, *shape) for name, x in found.items()}


def of_samples(cell: Cell, samples: dict[str, np.ndarray], data: CellData) -> Measured:
    """Fréchet distances to the test images: by an untrained net, and by Inception if its weights are at hand.

    Beside them, two that do not depend on the model: of training images, and of noise.
    """
    generator = np.random.default_rng(cell.seed)
    noise = generator.integers(0, 256, (CHAINS, *data.x_test.shape[1:]), dtype=np.uint8)
    real = untrained_features(data.x_test)
    fakes = samples | {"real": some(data.x_train, CHAINS, cell.seed), "noise": noise}
    # A buffer whose chains all lag behind the data is handed on empty: there is nothing to measure.
    enough = {name: images for name, images in fakes.items() if len(images) > 1}
    numbers: Measured = {f"frechet_{n}": feature_frechet(real, untrained_features(x)) for n, x in enough.items()}
    weights = os.environ.get(INCEPTION)
    if weights:
        fids = {f"fid_{name}": inception_fid(data.x_test, enough[name], weights) for name in samples if name in enough}
        numbers |= fids
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


# ---- foreign data ----


def of_foreign(cell: Cell, model: TrainedModel, data: CellData) -> Measured:
    """AUROC of own test images against those of the other data sets, by -||d log p / dx|| and by log p."""
    answers = {kind: getattr(model, method) for kind, method in OOD.items()}
    rows = _rows(some(data.x_test, MOST, cell.seed))
    own = {kind: score(rows) for kind, score in answers.items()}
    numbers: Measured = {}
    for other in DATA:
        if other == cell.dataset:
            continue
        rows = _rows(some(load(other, split="test").x, cell.rows or MOST, cell.seed))
        numbers |= {f"ood_{kind}_{other}": auroc(own[kind], score(rows)) for kind, score in answers.items()}
    return numbers


def some(x: np.ndarray, most: int, seed: int) -> np.ndarray:
    """All of ``x``, or that many rows at random."""
    if len(x) <= most:
        return np.asarray(x)
    return x[np.sort(np.random.default_rng(seed).choice(len(x), most, replace=False))]


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)
