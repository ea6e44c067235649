"""How well clusters explain the data: a Gaussian per cluster for numbers, and frequencies of levels for categories."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from sklearn.cluster import k_means
from sklearn.exceptions import ConvergenceWarning

FOLDS = 5
EVIDENCE_ROWS = 2_000  # if there are more, a random subset of this size is used
LEVELS = 10  # columns of at most this many different numbers count as categories, too
ATOM, LEVELS_OF_ATOM = 0.15, 6  # a column with a value of more than this share of the rows is cut into this many levels
LEAST_LIKELY = 0.02  # share of the rows, the least likely ones, that do not count
SETTLED = 1e-4  # gain in nats per row at which EM ends


class Explained(NamedTuple):
    """Rows as `Clusters` explain them."""

    numbers: np.ndarray  # [n, p]
    levels: list[np.ndarray]  # of every category, one-hot, [n, levels]
    variances: np.ndarray  # of the numbers, over all rows of the data, [p]

    def at(self, places: np.ndarray) -> Explained:
        """Some of the rows."""
        return Explained(self.numbers[places], [level[places] for level in self.levels], self.variances)


class Clusters(NamedTuple):
    """A mixture: in a cluster, numbers are Gaussian with a full covariance, and categories are independent."""

    log_sizes: np.ndarray  # [k]
    centres: np.ndarray  # [k, p]
    roots: np.ndarray  # Cholesky factors of the covariances, [k, p, p]
    log_frequencies: list[np.ndarray]  # of every category, [k, levels]

    def log_joint(self, rows: Explained) -> np.ndarray:
        """log p(row, cluster), [n, k]."""
        n, p = rows.numbers.shape
        found = np.empty((n, len(self.log_sizes)))
        for k, (centre, root) in enumerate(zip(self.centres, self.roots, strict=True)):
            squares = np.square(solve_triangular(root, (rows.numbers - centre).T, lower=True)).sum(0)
            found[:, k] = self.log_sizes[k] - np.log(np.diag(root)).sum() - (squares + p * np.log(2 * np.pi)) / 2
        for level, log_p in zip(rows.levels, self.log_frequencies, strict=True):
            found += level @ log_p.T
        return found


def explained(x: np.ndarray, words: Sequence[Sequence[int]]) -> Explained:
    """Split scaled rows [n, d] into numbers and categories.

    Categories are the features listed in ``words``, and columns with few values: a Gaussian's density could grow
    without bound on a cluster whose rows share a value. In a table with words, a column is also cut into levels if one
    value, such as a discount of zero, fills much of it: rows with this value are not a cluster for that reason alone.
    """
    levels = [_levels(x[:, places]) for places in words]
    x = np.delete(x, [place for places in words for place in places], axis=1).astype(np.float64)
    steps = [_steps(column, ATOM if words else 1.0) for column in x.T]
    levels += [step for step in steps if step is not None]
    numbers = x[:, [step is None for step in steps]]
    return Explained(numbers, [np.eye(level.max() + 1)[level] for level in levels], numbers.var(0))


def _steps(column: np.ndarray, atom: float) -> np.ndarray | None:
    """The level of every number, if there are few different ones, or if one of them fills a share of ``atom``."""
    values, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    if len(values) <= LEVELS:
        return places
    if counts.max() <= atom * len(column):
        return None
    edges = np.quantile(column, np.linspace(0, 1, LEVELS_OF_ATOM + 1)[1:-1])
    return np.unique(np.searchsorted(edges, column), return_inverse=True)[1]


def _levels(features: np.ndarray) -> np.ndarray:
    """The level of a category in every row, from its scaled features; a gap counts as the most frequent level."""
    low, high = features.min(0), features.max(0)
    return (features - low).argmax(1) if len(low) > 1 else (features[:, 0] > (low[0] + high[0]) / 2).astype(int)


def clusters_of(rows: Explained, shares: np.ndarray) -> Clusters:
    """Fit clusters to rows that belong to them by ``shares`` [n, k].

    A covariance includes one pseudo-row with the variances of all data, made smaller for more clusters (Fraley and
    Raftery, 2007), so that it exists for clusters of any size. Every level counts once more than it occurs.
    """
    sizes, p = np.maximum(shares.sum(0), 1e-9), rows.numbers.shape[1]
    prior = np.diag(np.maximum(rows.variances, 1e-6)) / len(sizes) ** (2 / max(1, p))
    centres = (shares.T @ rows.numbers) / sizes[:, None]
    roots = np.empty((len(sizes), p, p))
    for k, centre in enumerate(centres):
        apart = rows.numbers - centre
        roots[k] = np.linalg.cholesky(((shares[:, k, None] * apart).T @ apart + prior) / (sizes[k] + 1))
    counts = [shares.T @ level + 1.0 for level in rows.levels]
    frequencies = [np.log(count / count.sum(1, keepdims=True)) for count in counts]
    return Clusters(np.log(sizes / sizes.sum()), centres, roots, frequencies)


def held_out_log_likelihood(x: np.ndarray, labels: np.ndarray, words: Sequence[Sequence[int]] = ()) -> float:
    """Mean log-likelihood of rows [n, d] in nats, each under clusters fitted to the labels of the other folds."""
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(x), min(len(x), EVIDENCE_ROWS), replace=False))
    labels = np.unique(labels[some], return_inverse=True)[1]
    rows, shares, fold = explained(x[some], words), np.eye(labels.max() + 1)[labels], rng.permutation(len(some)) % FOLDS
    found = [
        logsumexp(clusters_of(rows.at(fold != k), shares[fold != k]).log_joint(rows.at(fold == k)), axis=1)
        for k in range(FOLDS)
    ]
    return float(np.sort(np.concatenate(found))[int(LEAST_LIKELY * len(some)) :].mean())


def best_mixture(rows: Explained, x: np.ndarray, k: int, *, tries: int, seed: int = 0) -> Clusters:
    """Clusters that explain the rows best, by EM from several runs of k-means on the scaled rows ``x``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer than k different rows
        starts = [np.asarray(k_means(x, k, n_init=1, random_state=seed + i)[1]) for i in range(tries)]  # type: ignore[arg-type]
    found = [_by_expectation_maximisation(rows, np.eye(k)[labels]) for labels in starts]
    return max(found, key=lambda one: one[1])[0]


def _by_expectation_maximisation(rows: Explained, shares: np.ndarray) -> tuple[Clusters, float]:
    """Clusters, and the mean log-likelihood of the rows."""
    before = -np.inf
    while True:
        clusters = clusters_of(rows, shares)
        joint = clusters.log_joint(rows)
        each = logsumexp(joint, axis=1, keepdims=True)
        if (now := float(each.mean())) - before < SETTLED:
            return clusters, now
        shares, before = np.exp(joint - each), now
