"""Which features are categories: those made from a table's words, and columns that were one-hot already."""

from __future__ import annotations

import numpy as np

from gedi.data.streaming import row_blocks
from gedi.data.table_recipe import TableRecipe

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
