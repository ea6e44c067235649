"""Fréchet distances between real and generated data (Appendix J): FID, and one on features that need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from gedi.errors import DataError


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
