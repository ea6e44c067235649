"""Which features are categories: those that a table's words became, and columns that were one-hot from the start."""

from __future__ import annotations

import numpy as np

from gedi.data.streaming import row_blocks
from gedi.data.table_recipe import TableRecipe

FIRST_ROWS = 1000  # that columns have to be 0 or 1 in before all rows are looked at


def categories(x: np.ndarray, table: TableRecipe | None = None, *, images: bool = False) -> list[list[int]]:
    """Feature indices of every category of rows [n, d].

    Without words in the table, they are runs of columns of zeros and ones with a single one in every row.
    """
    if images:
        return []
    if table is not None and table.words:
        return [list(places) for places in table.words]
    some = np.asarray(x[:FIRST_ROWS])
    return [run for run in _runs(some) if all(_is_one_hot(block[:, run]) for _, block in row_blocks(x))]


def _runs(x: np.ndarray) -> list[list[int]]:
    """Runs of neighbouring columns, as short as possible, that are one-hot in these rows."""
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
