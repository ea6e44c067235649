"""How well a clustering explains the data: the likelihood of held-out rows under one Gaussian per cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FOLDS = 5
MOST_ROWS = 2_000  # if there are more, a random subset of this size is used
LEVELS = 10  # columns of at most this many different numbers count as categories, too
OUTLIERS = 0.02  # share of the rows, the least likely ones, that do not count


def held_out_log_likelihood(x: np.ndarray, labels: np.ndarray, words: Sequence[Sequence[int]] = ()) -> float:
    """Mean log-likelihood of rows [n, d] in nats, each under a mixture fitted to the other folds.

    The mixture has one Gaussian with a full covariance per cluster, fitted to the rows with that label. Its covariance
    includes one pseudo-row with the variances of all rows, made smaller for more clusters (Fraley and Raftery, 2007),
    so that it exists for clusters of any size. Categories, which are the features listed in ``words`` and columns with
    few values, are modelled by the frequencies of their levels in each cluster instead: a Gaussian's density could grow
    without bound on a cluster whose rows share a level.
    """
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(x), min(len(x), MOST_ROWS), replace=False))
    x, (names, labels) = x[some].astype(np.float64), np.unique(labels[some], return_inverse=True)
    fold = rng.permutation(len(x)) % FOLDS
    levels = [_levels(x[:, places]) for places in words]
    x = np.delete(x, [place for places in words for place in places], axis=1)
    values = [np.unique(column, return_inverse=True) for column in x.T]
    levels += [places for found, places in values if len(found) <= LEVELS]
    x = x[:, [len(found) > LEVELS for found, _ in values]]
    prior = np.diag(np.maximum(x.var(0), 1e-6)) / len(names) ** (2 / max(1, x.shape[1]))
    found = np.concatenate([_log_likelihood(x, levels, labels, fold != k, prior) for k in range(FOLDS)])
    return float(np.sort(found)[int(OUTLIERS * len(found)) :].mean())


def _levels(features: np.ndarray) -> np.ndarray:
    """The level of a category in every row, from its scaled features; a gap counts as the most frequent level."""
    low, high = features.min(0), features.max(0)
    return (features - low).argmax(1) if len(low) > 1 else (features[:, 0] > (low[0] + high[0]) / 2).astype(int)


def _log_likelihood(
    x: np.ndarray, levels: Sequence[np.ndarray], labels: np.ndarray, seen: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    """Log-likelihood of the rows that are not ``seen``, under Gaussians and frequencies of those that are."""
    new, parts = x[~seen], []
    for cluster in np.unique(labels[seen]):
        rows = x[seen & (labels == cluster)]
        centre = rows.mean(0)
        covariance = ((rows - centre).T @ (rows - centre) + prior) / (len(rows) + 1)
        root = np.linalg.cholesky(covariance)
        squares = np.square(np.linalg.solve(root, (new - centre).T)).sum(0)
        size = np.log(len(rows) / seen.sum()) - np.log(np.diag(root)).sum()
        part = size - (squares + x.shape[1] * np.log(2 * np.pi)) / 2
        for level in levels:
            counts = np.bincount(level[seen & (labels == cluster)], minlength=level.max() + 1) + 1.0
            part = part + np.log(counts / counts.sum())[level[~seen]]
        parts.append(part)
    return np.logaddexp.reduce(np.stack(parts), axis=0)
