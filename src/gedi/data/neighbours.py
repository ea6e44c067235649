"""Nearest neighbours: exact for up to `EXACT_ROWS` rows, approximate for more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from gedi.data.scaled_rows import Rows
from gedi.data.streaming import release, row_blocks, scratch, take

MOST_PRODUCTS = 1e11  # for the distances between all rows: about a minute on one core
MAIN_DIRECTIONS = 50  # principal components to search neighbours in, if there are many long rows
PCA_ROWS = 5000  # rows that the components are computed from
EXACT_ROWS = 20_000  # up to this many, all rows are compared
CELL_ROWS, CELLS_SEARCHED = 300, 20  # rows per cell on average, at most twice as many; nearest cells to search
SAMPLE_ROWS, ROUNDS = 30, 4  # of k-means, which places the cells: rows per cell, and rounds
PARTITIONS = 2  # of the categories into halves
DISTANCES_AT_ONCE = 1 << 23  # distances computed at a time: 32 MB


class Neighbours(NamedTuple):
    """The k nearest other rows of every row, nearest first: their indices and distances, both [n, k]."""

    places: np.ndarray
    distances: np.ndarray


def nearest_neighbours(x: np.ndarray, k: int) -> Neighbours:
    """The k nearest other rows of every row of x [n, d]; the same rows always give the same answer.

    The answer is exact for up to `EXACT_ROWS` rows. More rows are sorted into cells, and each is compared with the rows
    of the nearest cells. This finds most of the neighbours, in time that grows little faster than n.
    """
    k = min(k, len(x) - 1)
    if len(x) > EXACT_ROWS:
        return _search_cells(x, k)
    from sklearn.neighbors import NearestNeighbors  # takes a second to import

    distances, places = NearestNeighbors(n_neighbors=k + 1).fit(x).kneighbors(x)
    others = _others(places, np.arange(len(x)))
    return Neighbours(places[others].reshape(-1, k), distances[others].reshape(-1, k))


def _others(places: np.ndarray, own: np.ndarray) -> np.ndarray:
    """A mask without the row itself, which is found by its index: a duplicate may be listed before it."""
    itself = places == own[:, None]
    itself[~itself.any(1), -1] = True
    return ~itself


# -- very many rows ---------------------------------------------------------------------------------------------------


def _search_cells(x: np.ndarray, k: int) -> Neighbours:
    found = Neighbours(np.empty((len(x), k), np.int64), np.empty((len(x), k), np.float32))
    for own, candidates in _cells(x, k + 1):
        rows = _tensor(take(x, candidates))
        squares = rows.square().sum(1)
        for some in np.array_split(own, math.ceil(len(own) * len(candidates) / DISTANCES_AT_ONCE)):
            here = _tensor(take(x, some))
            near = torch.addmm(squares, here, rows.T, alpha=-2).topk(k + 1, dim=1, largest=False).indices
            # The expanded squares suffer from rounding; the differences do not, so they decide the order.
            distances, order = (rows[near] - here[:, None]).norm(dim=2).sort(dim=1, stable=True)
            places = candidates[near.gather(1, order).numpy()]
            others = _others(places, some)
            found.places[some] = places[others].reshape(-1, k)
            found.distances[some] = distances.numpy()[others].reshape(-1, k)
    return found


def _cells(x: np.ndarray, fewest: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of every cell, and those of the nearest cells, at least ``fewest``, to compare them with."""
    centres = _centres(x, len(x) // CELL_ROWS)
    cell = np.empty(len(x), np.int64)
    for start, rows in row_blocks(x, DISTANCES_AT_ONCE // len(centres)):
        cell[start : start + len(rows)] = _nearest(_tensor(rows), centres).numpy()
    order = np.argsort(cell, kind="stable")
    # Identical rows would share one cell, whose cost is the square of its size, so large cells are split.
    whole = np.split(order, np.cumsum(np.bincount(cell, minlength=len(centres)))[:-1])
    cut = [
        (c, piece)
        for c, rows in enumerate(whole)
        if len(rows)
        for piece in np.array_split(rows, math.ceil(len(rows) / (2 * CELL_ROWS)))
    ]
    pieces, middles = [piece for _, piece in cut], centres[[c for c, _ in cut]]
    sizes = np.array([len(piece) for piece in pieces])
    for own, middle in zip(pieces, middles, strict=True):
        by_distance = (middles - middle).square().sum(1).argsort(stable=True).numpy()
        enough = int(np.searchsorted(np.cumsum(sizes[by_distance[: fewest + 1]]), fewest)) + 1
        yield own, np.concatenate([pieces[i] for i in by_distance[: max(CELLS_SEARCHED, enough)]])


def _centres(x: np.ndarray, count: int) -> torch.Tensor:
    """Centres of the cells, from a few rounds of k-means on a sample of the rows."""
    rng = np.random.default_rng(0)
    rows = _tensor(take(x, np.sort(rng.choice(len(x), min(len(x), SAMPLE_ROWS * count), replace=False))))
    centres = rows[np.sort(rng.choice(len(rows), count, replace=False))]
    for _ in range(ROUNDS):
        cell = torch.cat([_nearest(some, centres) for some in rows.split(DISTANCES_AT_ONCE // count)])
        sums = torch.zeros_like(centres).index_add_(0, cell, rows)
        centres = sums / torch.bincount(cell, minlength=count).clamp_min(1)[:, None]
    return centres


def _nearest(rows: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    return torch.addmm(centres.square().sum(1), rows, centres.T, alpha=-2).argmin(1)


def _tensor(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(x, dtype=np.float32))


# -- for training ----------------------------------------------------------------------------------------------------


def partial_views(x: np.ndarray, words: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The rows without some of their categories, whose features ``words`` lists: each is missing from half the views.

    Two words are equal or not, so nearest rows share all their words, and any one category would look like clusters
    with wide gaps between them. Rows that are near in half of the categories need not agree on any particular one.
    """
    if not words:
        return [x]
    rng = np.random.default_rng(0)
    views = []
    for _ in range(PARTITIONS):
        order = rng.permutation(len(words))
        for left_out in (order[::2], order[1::2]):
            gone = {place for i in left_out for place in words[i]}
            kept = [place for place in range(x.shape[1]) if place not in gone]
            views += [x[:, kept]] if kept else []
    return views


def neighbour_table(data: Rows, k: int, words: Sequence[Sequence[int]] = ()) -> torch.Tensor:
    """Indices of up to k mutual neighbours of every row, [n, k]: two rows that are among each other's k nearest.

    One-sided neighbours often belong to another component (an outlier's neighbours have closer ones of their own), so
    they are left out. Mutual neighbours are repeated to fill a row; a row that has none keeps its nearest one.
    With ``words``, there are k for each of the `partial_views`.
    """
    n, d = data.shape
    # The distances between long rows could take many minutes; if there are words, all of their features are needed.
    rows = main_directions(data) if n**2 * d > MOST_PRODUCTS and not words else np.asarray(data[:])
    return torch.cat([_mutual_neighbours(view, k) for view in partial_views(rows, words)], dim=1)


def _mutual_neighbours(x: np.ndarray, k: int) -> torch.Tensor:
    near = nearest_neighbours(x, k).places
    n, k = near.shape
    table = np.empty_like(near)
    for rows in np.array_split(np.arange(n), n // 1000 + 1):  # all neighbours of neighbours would take too much memory
        mutual = (near[near[rows]] == rows[:, None, None]).any(2)
        mutual[~mutual.any(1), 0] = True
        order = np.argsort(~mutual, axis=1, kind="stable")
        filled = np.take_along_axis(order, np.arange(k)[None, :] % mutual.sum(1)[:, None], axis=1)
        table[rows] = np.take_along_axis(near[rows], filled, axis=1)
    return torch.from_numpy(table)


def main_directions(data: Rows | np.ndarray) -> np.ndarray:
    """The rows in their first principal components, or unchanged if they have no more features than that."""
    from sklearn.decomposition import PCA

    n, d = data.shape
    if min(n, d) <= MAIN_DIRECTIONS:
        return np.asarray(data[:])
    some = np.asarray(data[:: math.ceil(n / PCA_ROWS)])
    pca = PCA(MAIN_DIRECTIONS, svd_solver="randomized", random_state=0).fit(some)
    directions = scratch((n, MAIN_DIRECTIONS), np.float32)
    for rows in np.array_split(np.arange(n), n // 1000 + 1):
        directions[rows] = pca.transform(np.asarray(data[rows[0] : rows[-1] + 1]))
        release(directions)
    return directions
