"""How close samples are to real data (Appendix J): FID, and distances that need no weights to download."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.nn import functional as F

from gedi.errors import DataError
from gedi.nets import ConvNet


def frechet_distance(mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike) -> float:
    """|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)): the squared 2-Wasserstein distance of two Gaussians, in float64.

    The trace of the root is the sum of the singular values of S1^(1/2) S2^(1/2). Unlike a matrix root of S1 S2, it is
    never complex and needs no jitter when there are fewer samples than dimensions.
    """
    m1, m2 = np.asarray(mean1, dtype=np.float64), np.asarray(mean2, dtype=np.float64)
    s1, s2 = np.asarray(cov1, dtype=np.float64), np.asarray(cov2, dtype=np.float64)
    if m1.ndim != 1 or m1.shape != m2.shape or s1.shape != s2.shape or s1.shape != (len(m1), len(m1)):
        raise DataError(
            f"Means [d] and covariances [d, d] do not fit together: {m1.shape}, {s1.shape}, {m2.shape}, {s2.shape}."
        )
    if not all(np.isfinite(a).all() for a in (m1, m2, s1, s2)):
        raise DataError("The means or covariances contain NaN or inf.")
    overlap = np.linalg.svd(_root(s1).T @ _root(s2), compute_uv=False).sum()
    return max(0.0, float(np.sum((m1 - m2) ** 2) + np.trace(s1) + np.trace(s2) - 2 * overlap))


def _root(covariance: np.ndarray) -> np.ndarray:
    """R with R R^T = covariance. Directions without variance are exactly zero, not the root of a rounding error."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    floor = len(values) * np.finfo(np.float64).eps * np.abs(values).max(initial=0.0)
    return vectors * np.sqrt(np.where(values > floor, values, 0.0))


def gaussian_of(features: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Mean and unbiased covariance of features [n, d], in float64."""
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2 or x.shape[1] == 0:
        raise DataError(f"A Fréchet distance needs features [n, d] of at least two samples, got shape {x.shape}.")
    if not np.isfinite(x).all():
        raise DataError("The features contain NaN or inf.")
    return x.mean(axis=0), np.cov(x, rowvar=False).reshape(x.shape[1], x.shape[1])


def feature_frechet(real: ArrayLike, fake: ArrayLike) -> float:
    """Fréchet distance between features [n, d] of any network, such as the encoder's own.

    NOT comparable with a published FID, nor between networks: only between samples seen through the same features.
    """
    (m1, s1), (m2, s2) = gaussian_of(real), gaussian_of(fake)
    if len(m1) != len(m2):
        raise DataError(f"Real and fake features differ in width: {len(m1)} and {len(m2)}.")
    return frechet_distance(m1, s1, m2, s2)


def inception_fid(
    real: np.ndarray, fake: np.ndarray, weights_path: str | Path, *, batch_size: int = 50, device: str = "cpu"
) -> float:
    """FID of uint8 images [n, H, W, C] by torchmetrics, with the Inception weights in the given file.

    The file is torch-fidelity's ``weights-inception-2015-12-05-6726825d.pth``; nothing is downloaded.
    """
    metric = inception_metric(weights_path).to(device)
    images = [_rgb_bytes(x, name) for name, x in (("real", real), ("fake", fake))]
    for batch, is_real in zip(images, (True, False), strict=True):
        for start in range(0, len(batch), batch_size):
            block = np.ascontiguousarray(batch[start : start + batch_size].transpose(0, 3, 1, 2))
            metric.update(torch.from_numpy(block).to(device), real=is_real)
    return float(metric.compute())


def inception_metric(weights_path: str | Path) -> Any:
    """torchmetrics' FID with the weights in a file; a DataError says what is missing."""
    path = Path(weights_path).expanduser()
    if not path.is_file():
        raise DataError(
            f"There are no Inception weights at {path}: download weights-inception-2015-12-05-6726825d.pth from "
            "https://github.com/toshas/torch-fidelity/releases and give its path."
        )
    try:
        from torchmetrics.image.fid import FrechetInceptionDistance  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise DataError("FID needs torchmetrics: pip install 'gedi-ssl[fid]' torch-fidelity.") from error
    try:
        # Older versions of torch would unpickle whatever the file holds: check it first with the loader that does not.
        torch.load(path, weights_only=True, map_location="meta")
    except Exception as error:
        raise DataError(f"{path} is not a file of Inception weights: it is damaged, or a different file.") from error
    try:
        return FrechetInceptionDistance(feature=2048, feature_extractor_weights_path=str(path))
    except ModuleNotFoundError as error:  # how torchmetrics reports that torch-fidelity is missing
        raise DataError(
            "FID needs torch-fidelity as well as torchmetrics: pip install torch-fidelity "
            "(it installs torchvision, which must match your version of torch)."
        ) from error
    except (RuntimeError, KeyError) as error:
        raise DataError(f"The weights in {path} are not those of FID's Inception network.") from error


def _rgb_bytes(x: np.ndarray, name: str) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim != 4 or x.dtype != np.uint8 or x.shape[-1] not in (1, 3) or len(x) < 2:
        raise DataError(f"The {name} images must be uint8 [n, H, W, 3 or 1], n at least 2, got {x.dtype} {x.shape}.")
    return np.broadcast_to(x, (*x.shape[:3], 3))


# ---- a small net that has learned the labels ----

# Its distances are NOT FID, and cannot be compared with a published one: only with each other, through the same net.
SMALL_NET_FRECHET = "small-net Fréchet distance (not FID)"  # what tables must call it
WIDTH = 64  # features: so few that a few hundred samples are enough for a covariance
SURE = 0.9  # probability from which a class counts as recognised
RATE, BATCH, IMAGES_AT_ONCE = 3e-3, 128, 256
SHIFT_OF_IMAGES = 1 / 8  # of the side: how far training images are moved


@dataclass(frozen=True)
class Recogniser:
    """A net that recognises the classes of byte images [n, H, W, C]."""

    net: nn.Sequential  # features, then one score per class
    classes: np.ndarray  # the labels it learned, in the order of the scores

    @torch.no_grad()
    def features(self, images: np.ndarray) -> np.ndarray:
        """The features of the images, [n, features]."""
        parts = np.array_split(images, max(1, math.ceil(len(images) / IMAGES_AT_ONCE)))
        return torch.cat([self.net[0](_pixels(some)) for some in parts]).numpy()

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """How sure it is of each class, [n, classes]."""
        with torch.no_grad():
            return self.net[1](torch.from_numpy(self.features(images))).softmax(1).numpy()

    def predict(self, images: np.ndarray) -> np.ndarray:
        """The label of every image."""
        return self.classes[self.probabilities(images).argmax(1)]


def train_recogniser(images: np.ndarray, labels: np.ndarray, *, epochs: int = 10, seed: int = 0) -> Recogniser:
    """Train on byte images [n, H, W, C] with one label each, under small random shifts."""
    x, y = np.asarray(images), np.asarray(labels)
    if x.ndim != 4 or x.dtype != np.uint8 or y.shape != x.shape[:1] or len(y) < 2:
        raise DataError(
            f"A recogniser learns from byte images [n, H, W, C] and n labels, got {x.dtype} {x.shape} and {y.shape}."
        )
    classes, targets = np.unique(y, return_inverse=True)
    generator, target = torch.Generator().manual_seed(seed), torch.from_numpy(targets.reshape(-1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(ConvNet(x.shape[3], WIDTH), nn.Linear(WIDTH, len(classes)))
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
    total = epochs * math.ceil(len(x) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=total)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            scores = net(_shifted(_pixels(x[rows.numpy()]), generator))
            optimiser.zero_grad()
            F.cross_entropy(scores, target[rows]).backward()
            optimiser.step()
            schedule.step()
    return Recogniser(net.eval().requires_grad_(False), classes)


def sample_scores(recogniser: Recogniser, samples: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """How samples compare with reference images: distance of features, and what is recognised.

    ``recognised`` is the share of samples that the net is sure about, and ``classes`` the share of all classes that
    occur among these. For the range, pass training images or noise as the samples.
    """
    best = recogniser.probabilities(samples)
    sure = best.max(1) >= SURE
    return {
        "small_net_frechet": feature_frechet(recogniser.features(reference), recogniser.features(samples)),
        "recognised": float(sure.mean()),
        "classes": len(np.unique(best[sure].argmax(1))) / best.shape[1],
    }


def _pixels(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def _shifted(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The batch, shifted by a few random pixels; the border is repeated."""
    most = max(1, int(SHIFT_OF_IMAGES * min(x.shape[2:])))
    down, across = torch.randint(2 * most + 1, (2,), generator=generator).tolist()
    padded = F.pad(x, (most,) * 4, mode="replicate")
    return padded[:, :, down : down + x.shape[2], across : across + x.shape[3]]
