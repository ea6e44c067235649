"""How well a clustering explains where rows lie: the likelihood that a Gaussian per cluster gives to held-out rows."""

from __future__ import annotations

import numpy as np

FOLDS = 5
MOST_ROWS = 2_000  # of more rows, a random choice of this size
LEVELS = 10  # a column with no more values than this holds categories, whose Gaussian could be as narrow as one likes
OUTLIERS = 0.02  # the share of rows, the least likely ones, that do not count


def held_out_log_likelihood(x: np.ndarray, labels: np.ndarray) -> float:
    """Mean log-likelihood of rows [n, d] in nats, each under a mixture that was fitted to the other folds.

    The mixture has one Gaussian with a full covariance per cluster, fitted to the rows with that label. Its covariance
    includes one pseudo-row with the variances of all rows, made smaller for more clusters (Fraley and Raftery, 2007),
    so that it exists for clusters of any size. Columns of few values are left out; 0 if there are no others.
    """
    x = x[:, [len(np.unique(column)) > LEVELS for column in x.T]]
    if not x.shape[1]:
        return 0.0
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(x), min(len(x), MOST_ROWS), replace=False))
    x, (names, labels) = x[some].astype(np.float64), np.unique(labels[some], return_inverse=True)
    fold = rng.permutation(len(x)) % FOLDS
    prior = np.diag(np.maximum(x.var(0), 1e-6)) / len(names) ** (2 / x.shape[1])
    found = np.concatenate([_log_likelihood(x, labels, fold != k, prior) for k in range(FOLDS)])
    return float(np.sort(found)[int(OUTLIERS * len(found)) :].mean())


def _log_likelihood(x: np.ndarray, labels: np.ndarray, seen: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Log-likelihood of the rows that are not ``seen``, by Gaussians of those that are."""
    new, parts = x[~seen], []
    for cluster in np.unique(labels[seen]):
        rows = x[seen & (labels == cluster)]
        centre = rows.mean(0)
        covariance = ((rows - centre).T @ (rows - centre) + prior) / (len(rows) + 1)
        root = np.linalg.cholesky(covariance)
        squares = np.square(np.linalg.solve(root, (new - centre).T)).sum(0)
        size = np.log(len(rows) / seen.sum()) - np.log(np.diag(root)).sum()
        parts.append(size - (squares + x.shape[1] * np.log(2 * np.pi)) / 2)
    return np.logaddexp.reduce(np.stack(parts), axis=0)
