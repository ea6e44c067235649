"""Outliers of a table: log p finds rows in sparse regions, and tails find rows with extreme values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gedi.errors import DataError

TAILS = 3  # weight of the tails beside log p, chosen on the tables of table-anomaly


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
    """How unusual rows [n, d] are, from 0 to 1: the mean of their ranks among the training rows by log p and tails.

    ``model`` is a fitted `GEDI` or its `TrainedModel`. A rank is the share of training rows that are less unusual. Most
    outliers of real tables have extreme values, so tails count `TAILS` times; log p adds those whose values are
    unusual only in combination.
    """
    by_density = _ranks(-model.score_samples(train), -model.score_samples(rows))
    by_tails = _ranks(tail_scores(train, train), tail_scores(train, rows))
    return (by_density + TAILS * by_tails) / (1 + TAILS)


def _ranks(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    ordered = np.sort(train)
    left, right = np.searchsorted(ordered, rows, side="left"), np.searchsorted(ordered, rows, side="right")
    return (left + right) / (2 * len(ordered))
