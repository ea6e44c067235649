"""Out-of-distribution detection (Appendix J): how well a score tells own data from foreign data."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from gedi.errors import DataError


class Scorer(Protocol):
    """Anything with the two scores."""

    def score_samples(self, x: np.ndarray) -> np.ndarray: ...
    def ood_score(self, x: np.ndarray) -> np.ndarray: ...


def auroc(own: ArrayLike, foreign: ArrayLike) -> float:
    """Chance that a row of own data scores higher than a foreign one; 0.5 is guessing."""
    own, foreign = np.asarray(own), np.asarray(foreign)
    if own.ndim != 1 or foreign.ndim != 1 or len(own) == 0 or len(foreign) == 0:
        raise DataError(f"AUROC needs one score a row of both data sets, got shapes {own.shape} and {foreign.shape}.")
    scores = np.concatenate([own, foreign])
    if np.isnan(scores).any():
        raise DataError(f"{int(np.isnan(scores).sum())} of the {len(scores)} scores are NaN: the model has diverged.")
    is_own = np.concatenate([np.ones(len(own)), np.zeros(len(foreign))])
    return float(roc_auc_score(is_own, rankdata(scores)))  # only the order counts, and ranks of inf are numbers


def gradient_score(gradients: ArrayLike) -> np.ndarray:
    """The paper's criterion s(x) = -||d log p / dx||_2, from gradients [n, ...] of rows or images."""
    g = np.asarray(gradients, dtype=np.float64)
    if g.ndim < 2:
        raise DataError(f"Expected one gradient a row, [n, ...], got shape {g.shape}.")
    return -np.linalg.norm(g.reshape(len(g), -1), axis=1)


def ood_auroc(
    *, own_log_density: ArrayLike, foreign_log_density: ArrayLike, own_gradient: ArrayLike, foreign_gradient: ArrayLike
) -> dict[str, float]:
    """AUROC of the paper's criterion and of log p, from log densities [n] and gradients [n, ...] already at hand."""
    return {
        "auroc_gradient": auroc(gradient_score(own_gradient), gradient_score(foreign_gradient)),
        "auroc_log_density": auroc(own_log_density, foreign_log_density),
    }


def ood_scores(model: Scorer, own: np.ndarray, foreign: np.ndarray) -> dict[str, float]:
    """AUROC of the paper's criterion, -||d log p / dx||, and beside it of log p itself."""
    return {
        "auroc_gradient": auroc(model.ood_score(own), model.ood_score(foreign)),
        "auroc_log_density": auroc(model.score_samples(own), model.score_samples(foreign)),
    }
