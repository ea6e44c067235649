"""How well a clustering explains where rows lie: the likelihood that a Gaussian per cluster gives to held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FOLDS = 5
MOST_ROWS = 2_000  # of more rows, a random choice of this size
LEVELS = 10  # a column with no more values than this holds categories, whose Gaussian could be as narrow as one likes
OUTLIERS = 0.02  # the share of rows, the least likely ones, that do not count


def held_out_log_likelihood(x: np.ndarray, labels: np.ndarray, words: Sequence[Sequence[int]] = ()) -> float:
    """Mean log-likelihood of rows [n, d] in nats, each under a mixture that was fitted to the other folds.

    The mixture has one Gaussian with a full covariance per cluster, fitted to the rows with that label. Its covariance
    includes one pseudo-row with the variances of all rows, made smaller for more clusters (Fraley and Raftery, 2007),
    so that it exists for clusters of any size. Categories, whose features ``words`` lists, have the frequencies of
    their levels in each cluster instead: a Gaussian could grow without bound on a cluster whose rows share a word.
    Other columns of few values are left out; 0 if there is nothing else.
    """
    taken = {place for places in words for place in places}
    numbers = [j for j, column in enumerate(x.T) if j not in taken and len(np.unique(column)) > LEVELS]
    if not numbers and not words:
        return 0.0
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(x), min(len(x), MOST_ROWS), replace=False))
    x, (names, labels) = x[some].astype(np.float64), np.unique(labels[some], return_inverse=True)
    fold = rng.permutation(len(x)) % FOLDS
    levels = np.stack([_levels(x[:, places]) for places in words], axis=1) if words else np.empty((len(x), 0), int)
    x = x[:, numbers]
    prior = np.diag(np.maximum(x.var(0), 1e-6)) / len(names) ** (2 / max(1, x.shape[1]))
    found = np.concatenate([_log_likelihood(x, levels, labels, fold != k, prior) for k in range(FOLDS)])
    return float(np.sort(found)[int(OUTLIERS * len(found)) :].mean())


def _levels(features: np.ndarray) -> np.ndarray:
    """The level of a category in every row, from its scaled features; a gap counts as the most frequent level."""
    low, high = features.min(0), features.max(0)
    return (features - low).argmax(1) if len(low) > 1 else (features[:, 0] > (low[0] + high[0]) / 2).astype(int)


def _log_likelihood(
    x: np.ndarray, levels: np.ndarray, labels: np.ndarray, seen: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    """Log-likelihood of the rows that are not ``seen``, by Gaussians and frequencies of those that are."""
    new, parts = x[~seen], []
    for cluster in np.unique(labels[seen]):
        rows = x[seen & (labels == cluster)]
        centre = rows.mean(0)
        covariance = ((rows - centre).T @ (rows - centre) + prior) / (len(rows) + 1)
        root = np.linalg.cholesky(covariance)
        squares = np.square(np.linalg.solve(root, (new - centre).T)).sum(0)
        size = np.log(len(rows) / seen.sum()) - np.log(np.diag(root)).sum()
        part = size - (squares + x.shape[1] * np.log(2 * np.pi)) / 2
        for level in levels.T:
            counts = np.bincount(level[seen & (labels == cluster)], minlength=level.max() + 1) + 1.0
            part = part + np.log(counts / counts.sum())[level[~seen]]
        parts.append(part)
    return np.logaddexp.reduce(np.stack(parts), axis=0)
