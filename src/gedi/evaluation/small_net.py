"""How good samples of labelled images are, judged by a small net that has learned the labels: no weights to download.

Its distances are NOT FID, and cannot be compared with a published one: only with each other, through the same net.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from gedi.errors import DataError
from gedi.evaluation.fid import feature_frechet
from gedi.nets import ConvNet

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
