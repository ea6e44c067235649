"""What a model must know about the rows of a table: how gaps are filled, and which features are categories."""

from __future__ import annotations

import math

import numpy as np

from gedi.data.streaming import row_blocks
from gedi.data.table_recipe import TableRecipe

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


FIRST_ROWS = 1000  # to look for one-hot columns in, before all rows are checked


def categories(x: np.ndarray, table: TableRecipe | None = None, *, images: bool = False) -> list[list[int]]:
    """Feature indices of every category in rows [n, d].

    Without words in the table, these are runs of adjacent columns with a single 1 and otherwise 0 in every row.
    """
    if images:
        return []
    if table is not None and table.words:
        return [list(places) for places in table.words]
    some = np.asarray(x[:FIRST_ROWS])
    return [run for run in _runs(some) if all(_is_one_hot(block[:, run]) for _, block in row_blocks(x))]


def _runs(x: np.ndarray) -> list[list[int]]:
    """Runs of adjacent columns, as short as possible, that are one-hot in these rows."""
    found: list[list[int]] = []
    run: list[int] = []
    for place, is_binary in enumerate(((x == 0) | (x == 1)).all(axis=0).tolist()):
        run = [*run, place] if is_binary else []
        while run and x[:, run].sum(axis=1).max() > 1:
            run = run[1:]
        if len(run) > 1 and _is_one_hot(x[:, run]):
            found.append(run)
            run = []
    return found


def _is_one_hot(x: np.ndarray) -> bool:
    return bool(((x == 0) | (x == 1)).all() and (x.sum(axis=1) == 1).all())
