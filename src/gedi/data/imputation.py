"""Gaps in the numbers of a table: a model sees them filled from similar rows."""

from __future__ import annotations

import math

import numpy as np

DONORS = 2_000  # at most, spread evenly
SIMILAR = 5  # rows that a gap is filled from
TYPICAL = 50  # rows that stand for all, to fill gaps in new ones


def fill_gaps(rows: np.ndarray, gaps: np.ndarray, donors: np.ndarray | None = None) -> np.ndarray:
    """Scaled rows [n, d]; where ``gaps`` [n, d] is true, the mean of the ``donors`` that are most similar elsewhere.

    None: the donors are the rows themselves, each for the columns that it has. If one value filled all gaps of a
    column, rows that have nothing else in common would look like a cluster, and the density would have a spike there.
    """
    if not (needy := gaps.any(axis=1)).any():
        return rows
    from sklearn.impute import KNNImputer  # takes a second to import

    known = np.where(gaps, np.nan, rows)
    donors = known if donors is None else donors
    imputer = KNNImputer(n_neighbors=SIMILAR, weights="distance", keep_empty_features=True)
    filled = rows.copy()
    filled[needy] = imputer.fit(donors[:: math.ceil(len(donors) / DONORS)]).transform(known[needy])
    return filled


def typical_rows(rows: np.ndarray) -> np.ndarray:
    """A few rows that stand for all: centres of k-means, so that a model need not keep any row itself."""
    from sklearn.cluster import k_means

    some = rows[:: math.ceil(len(rows) / (10 * DONORS))]
    return np.asarray(k_means(some, min(TYPICAL, math.ceil(len(some) / 4)), n_init=1, random_state=0)[0])  # type: ignore[arg-type]
