"""Out-of-distribution detection (Appendix J): how well a score tells own data from foreign data."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from sklearn.metrics import roc_auc_score


class Scorer(Protocol):
    """Anything with the two scores."""

    def score_samples(self, x: np.ndarray) -> np.ndarray: ...
    def ood_score(self, x: np.ndarray) -> np.ndarray: ...


def auroc(own: np.ndarray, foreign: np.ndarray) -> float:
    """Chance that a row of own data scores higher than a foreign one; 0.5 is guessing."""
    is_own = np.concatenate([np.ones(len(own)), np.zeros(len(foreign))])
    return float(roc_auc_score(is_own, np.concatenate([own, foreign])))


def ood_scores(model: Scorer, own: np.ndarray, foreign: np.ndarray) -> dict[str, float]:
    """AUROC of the paper's criterion, -||d log p / dx||, and beside it of log p itself."""
    return {
        "auroc_gradient": auroc(model.ood_score(own), model.ood_score(foreign)),
        "auroc_log_density": auroc(model.score_samples(own), model.score_samples(foreign)),
    }
