"""Rows unlike the data: how well a score separates foreign data (Appendix J), and how unusual a row of a table is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gedi.errors import DataError


def auroc(own: ArrayLike, foreign: ArrayLike) -> float:
    """Probability that a row of own data scores higher than a foreign one; 0.5 is chance."""
    from scipy.stats import rankdata
    from sklearn.metrics import roc_auc_score

    own, foreign = np.asarray(own), np.asarray(foreign)
    if own.ndim != 1 or foreign.ndim != 1 or len(own) == 0 or len(foreign) == 0:
        raise DataError(f"AUROC needs one score per row of each data set, got shapes {own.shape} and {foreign.shape}.")
    scores = np.concatenate([own, foreign])
    if np.isnan(scores).any():
        raise DataError(f"{int(np.isnan(scores).sum())} of the {len(scores)} scores are NaN: the model has diverged.")
    is_own = np.concatenate([np.ones(len(own)), np.zeros(len(foreign))])
    return float(roc_auc_score(is_own, rankdata(scores)))  # only the order matters, and the rank of inf is finite


def ood_scores(model: Any, own: np.ndarray, foreign: np.ndarray) -> dict[str, float]:
    """AUROC of the paper's criterion, -||d log p / dx||, of log p itself, and of typicality, if the model has it.

    ``model`` is a `TrainedModel`. For images use typicality, for tables log p or `outlier_scores`; the paper's
    criterion is only for comparison.
    """
    scores = {"gradient": model.ood_score, "log_density": model.score_samples}
    if model.typical_parts is not None:
        scores["typicality"] = model.typicality
    return {f"auroc_{name}": auroc(score(own), score(foreign)) for name, score in scores.items()}


def density_scores(model: Any, rows: np.ndarray, *, seed: int = 0) -> dict[str, float]:
    """AUROC of log p of held-out rows [n, d] against both kinds of `foreign_rows`."""
    own = model.score_samples(rows)
    uniform, shuffled = foreign_rows(rows, seed=seed).values()
    return {
        "auroc_uniform": auroc(own, model.score_samples(uniform)),
        "auroc_shuffled": auroc(own, model.score_samples(shuffled)),
    }


def foreign_rows(rows: np.ndarray, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows that are not data: uniform noise in the range of the rows, and the rows with every column shuffled.

    Shuffled columns keep their values; only the dependence between them is lost.
    """
    rng = np.random.default_rng(seed)
    noise = rng.uniform(rows.min(0), rows.max(0), rows.shape)
    return {"uniform noise": noise, "shuffled columns": rng.permuted(rows, axis=0)}


def tail_scores(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How extreme the values of rows [n, d] are among those of ``train`` [m, d]; higher is more extreme.

    The sum over columns of -log of the probability of the nearer tail, by the training rows (as in ECOD, Li et al.,
    2022, with both tails). It needs no model, and treats columns as independent.
    """
    train, rows = np.asarray(train), np.asarray(rows)
    if train.ndim != 2 or rows.ndim != 2 or train.shape[1] != rows.shape[1] or len(train) == 0:
        raise DataError(f"Tail scores need two tables with the same columns, got {train.shape} and {rows.shape}.")
    found = np.zeros(len(rows))
    for column, values in zip(np.sort(train, axis=0).T, rows.T, strict=True):
        below = np.searchsorted(column, values, side="right") + 1
        above = len(column) - np.searchsorted(column, values, side="left") + 1
        found -= np.log(np.minimum(below, above) / (len(column) + 1))
    return found


def outlier_scores(model: Any, train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How unusual rows [n, d] are, by log p and by the tails of their columns; 0 for rows that are usual in both.

    ``model`` is a fitted `GEDI` or its `TrainedModel`. Many outliers of real tables have extreme values, which tails
    find; log p finds those that lie in a gap, or whose values are unusual only in combination. Both count by how far
    they exceed their median over the training rows, on a logarithmic scale, so that one of them is enough.
    """
    by_density = _excess(-model.score_samples(train), -model.score_samples(rows))
    by_tails = _excess(tail_scores(train, train), tail_scores(train, rows))
    return np.log1p(by_density) + np.log1p(by_tails)


def _excess(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How far scores lie above the median of the training rows' scores, in units of their interquartile range."""
    low, middle, high = np.quantile(train, [0.25, 0.5, 0.75])
    return np.maximum(rows - middle, 0.0) / ((high - low) or 1.0)
