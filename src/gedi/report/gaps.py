"""Are clusters set apart by gaps? Measured on the rows alone, without the model.

Rows are linked to their nearest neighbours. A border between clusters that runs through a gap cuts few links, compared
with the cheapest cut through the clusters themselves. Both shares grow with the dimension and with how fine the
clusters are; their ratio, the *crowding* of the borders, does not: it is near 0 for clusters with gaps around them,
whatever their shape, and about 1 for an arbitrary cut through evenly spread rows, through one Gaussian, or through one
curve. (The shares are the outer and the inner conductance of Oveis Gharan and Trevisan 2014.)

A cluster that splits in two by the same measure hides a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from gedi.data.neighbours import main_directions, nearest_neighbours, partial_views
from gedi.evaluation import ari
from gedi.training.evidence import LEVELS
from gedi.training.start import gaussian_mixture, tightest_kmeans

Words = Sequence[Sequence[int]]  # the features of every category

LINKS_PER_ROW = 10  # links per row
FEWEST_INSIDE = 20  # rows: smaller clusters have no inside to compare with
SMALLEST_PART = 0.1  # a cut must separate at least this share of a cluster: fewer rows are outliers
ROUNDS_OF_CUTS = 3  # rounds of cutting a cluster in two, to find parts without gaps
A_FEW = LINKS_PER_ROW // 2  # links: crossing this many more or fewer may be chance
HIDDEN = 0.2  # a cut runs through a gap if it costs less than this share of the cuts through its two parts
CROWDED = 0.7  # a cluster whose border is more crowded than this, relative to its inside, has no gap around it
MOST_CROWDING = 10.0  # crowding is capped here
ORDERS = 3  # eigenvectors to sweep along: the first few may only separate outliers


@dataclass(frozen=True)
class Surroundings:
    """The shares of a cluster's links that cross its border, and that cross the cheapest cut through it."""

    rows: int
    border: float
    inside: float | None = None  # None: too few rows
    gap: float = 1.0  # the cheapest cut, relative to cuts through the parts it makes: near 0 in a gap


@dataclass(frozen=True)
class Gaps:
    """How the clusters lie among the rows."""

    clusters: dict[int, Surroundings]  # by number; empty clusters are left out

    @property
    def crowding(self) -> float | None:
        """How crowded all borders together are: 0 if empty, about 1 if arbitrary; None if unknown."""
        known = [(c.rows, c.border, c.inside) for c in self.clusters.values() if c.inside is not None]
        if len(known) < 2:
            return None
        border = sum(rows * share for rows, share, _ in known)
        inside = sum(rows * share for rows, _, share in known)
        return min(MOST_CROWDING, border / inside) if inside > 0 else MOST_CROWDING if border > 0 else 0.0

    @property
    def crowded(self) -> list[int]:
        """Clusters without a gap around them: their border is hardly cheaper to cut than their inside."""
        clusters = self.clusters.items()
        return [number for number, c in clusters if c.inside is not None and c.border > CROWDED * c.inside]

    @property
    def hidden(self) -> list[int]:
        """Clusters that split in two."""
        return [number for number, c in self.clusters.items() if c.gap < HIDDEN]

    @property
    def hidden_share(self) -> float:
        """Share of the rows in clusters that split in two."""
        return sum(self.clusters[k].rows for k in self.hidden) / max(1, sum(c.rows for c in self.clusters.values()))


def spread_steps(x: np.ndarray, words: Words = ()) -> np.ndarray:
    """The rows, with columns of few distinct values spread over the space between those values.

    In a column of zeros and ones, the gap between 0 and 1 says nothing about clusters. Several such columns that vary
    together still show clusters. ``words``, the places of categories, stay as they are: `neighbour_links` knows them.
    """
    x, rng = np.array(x, dtype=np.float64), np.random.default_rng(0)
    known = {place for places in words for place in places}
    for column in (x[:, place] for place in range(x.shape[1]) if place not in known):
        values, places = np.unique(column, return_inverse=True)
        if 1 < len(values) <= LEVELS:
            middle = (values[1:] + values[:-1]) / 2
            low = np.concatenate([[2 * values[0] - middle[0]], middle])
            high = np.concatenate([middle, [2 * values[-1] - middle[-1]]])
            column[:] = rng.uniform(low[places], high[places])
    return x


def neighbour_links(x: np.ndarray, words: Words = ()) -> sparse.csr_matrix:
    """Links of all rows to their nearest neighbours, [n, n] and symmetric: 2 if each is a neighbour of the other.

    With ``words``, neighbours are those by half of the categories at a time: see `partial_views`.
    """
    near = np.concatenate([nearest_neighbours(view, LINKS_PER_ROW).places for view in partial_views(x, words)], axis=1)
    n, k = near.shape
    links = sparse.csr_matrix((np.ones(n * k), (np.repeat(np.arange(n), k), near.ravel())), shape=(n, n))
    return (links + links.T).tocsr()


def find_gaps(
    x: np.ndarray, labels: np.ndarray, links: sparse.csr_matrix, words: Words, known: dict[bytes, Surroundings]
) -> Gaps:
    """How well gaps separate the clusters ``labels`` [n] of rows x [n, d], whose columns should have comparable units.

    ``links`` are the `neighbour_links` of x. ``known``: clusters measured before, by their rows; new ones are added.
    """
    found = {}
    for number in np.unique(labels).tolist():
        mine = np.flatnonzero(labels == number)
        if (key := mine.tobytes()) not in known:
            own = links[mine]
            border = 1.0 - float(own[:, mine].sum()) / float(own.sum())
            known[key] = _surroundings(x[mine], border, words)
        found[number] = known[key]
    return Gaps(found)


def _surroundings(x: np.ndarray, border: float, words: Words) -> Surroundings:
    """Cut the rows repeatedly: a gap is much cheaper to cut than the rows on either side of it.

    Without gaps, cuts through smaller parts cross larger shares of links: up to twice as large for half the rows, if
    they lie along a curve. So shares are halved at every step.
    """
    if (cut := cheapest_cut(x, words)) is None:
        return Surroundings(len(x), border)
    parts, reference, discount = [x[part] for part in cut.parts], 0.0, 1.0
    for _ in range(ROUNDS_OF_CUTS):
        cuts = [(part, made) for part in parts if (made := cheapest_cut(part, words)) is not None]
        if not cuts:
            break
        mean = float(np.average([made.cautious_share for _, made in cuts], weights=[len(part) for part, _ in cuts]))
        reference, discount = max(reference, discount * mean), discount / 2
        parts = [part[some] for part, made in cuts for some in made.parts]
    return Surroundings(len(x), border, cut.share, cut.cautious_share / reference if reference else 1.0)


class Cut(NamedTuple):
    """A cut through rows: the links that cross it, those of the smaller part, and the two parts."""

    crossing: float
    volume: float
    parts: tuple[np.ndarray, np.ndarray]

    @property
    def share(self) -> float:
        return self.crossing / self.volume

    @property
    def cautious_share(self) -> float:
        """With a few more links crossing, since a difference of a few may be chance."""
        return (self.crossing + A_FEW) / self.volume


def cheapest_cut(x: np.ndarray, words: Words = ()) -> Cut | None:
    """The cut through rows that crosses the smallest share of links, as far as sweeps find it.

    None if there are too few rows. Rows are swept in the order of the first eigenvectors of their graph (Fiedler 1973).
    """
    if len(x) < FEWEST_INSIDE:
        return None
    links = neighbour_links(x, words)
    degree = np.asarray(links.sum(1)).ravel()
    _, piece = connected_components(links, directed=False)
    volumes = np.bincount(piece, degree)
    largest = piece == np.argmax(volumes)
    if volumes.max() <= (1 - SMALLEST_PART) * degree.sum():  # already in pieces
        smaller = min(volumes.max(), degree.sum() - volumes.max())
        return Cut(0.0, float(smaller), (np.flatnonzero(largest), np.flatnonzero(~largest)))
    kept = np.flatnonzero(largest)
    cuts = [cut for order in _orders(links[kept][:, kept]) if (cut := _sweep(links, kept[order])) is not None]
    return min(cuts, key=lambda cut: cut.share, default=None)


def _sweep(links: sparse.csr_matrix, order: np.ndarray) -> Cut | None:
    """The cheapest cut of an order into first and last rows; rows that are not in the order count as last."""
    some = links[order][:, order].tocoo()
    volume, total = np.cumsum(np.asarray(links[order].sum(1)).ravel()), float(links.sum())
    forward = some.row < some.col
    begin, end = (np.bincount(side[forward], some.data[forward], minlength=len(order)) for side in (some.row, some.col))
    crossing = np.cumsum(begin - end)
    smaller = np.minimum(volume, total - volume)
    allowed = np.flatnonzero(smaller >= SMALLEST_PART * total)
    if not len(allowed):
        return None
    best = allowed[int(np.argmin(crossing[allowed] / smaller[allowed]))]
    first = order[: best + 1]
    others = np.setdiff1d(np.arange(links.get_shape()[0]), first)
    return Cut(float(crossing[best]), float(smaller[best]), (first, others))


def _orders(links: sparse.csr_matrix) -> list[np.ndarray]:
    degree = np.asarray(links.sum(1)).ravel()
    root = sparse.diags_array(degree**-0.5)
    smoothing = (root @ links @ root + sparse.eye_array(len(degree))).tocsr()  # all eigenvalues lie between 0 and 2
    start = np.random.default_rng(0).standard_normal(len(degree))
    try:
        values, vectors = eigsh(smoothing, k=1 + ORDERS, which="LA", v0=start, tol=1e-4)  # pyright: ignore[reportArgumentType]
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
    best_first = np.argsort(-values)[1:]  # the first only reflects how many links a row has
    return [np.argsort(vectors[:, i] / np.sqrt(degree), kind="stable") for i in best_first]


# -- rivals ------------------------------------------------------------------------------------------------------------


K_MEANS, MIXTURE = "k-means", "Gaussian mixture"
SILHOUETTE_ROWS = 1_000


@dataclass(frozen=True, eq=False)
class MeasuredClusters:
    """Clusters of the rows shown, and label-free numbers about them."""

    labels: np.ndarray  # [n]
    gaps: Gaps
    silhouette: float | None  # -1 to 1; high for round clusters that are far apart
    agreement: float = 1.0  # adjusted Rand index with the run's own clusters

    @property
    def crowding(self) -> float | None:
        return self.gaps.crowding


def compare_rivals(
    scaled: np.ndarray, labels: np.ndarray, n_clusters: int, *, images: bool, words: Words = ()
) -> tuple[MeasuredClusters | None, dict[str, MeasuredClusters]]:
    """The run's own clusters and those of each rival, measured alike on scaled rows [n, d]; none for few rows.

    ``words`` are the features of every category.
    """
    if len(scaled) < 2 * FEWEST_INSIDE or n_clusters < 2:
        return None, {}
    x = scaled if images else spread_steps(scaled, words)
    x = x if words else main_directions(x.astype(np.float32)).astype(np.float64)
    links = neighbour_links(x, words)
    known: dict[bytes, Surroundings] = {}  # a cluster that several of them find is measured once

    def measured(found: np.ndarray) -> MeasuredClusters:
        gaps = find_gaps(x, found, links, words, known)
        return MeasuredClusters(found, gaps, _silhouette(x, found), ari(labels, found))

    count = min(n_clusters, len(np.unique(x, axis=0)))
    kmeans, mixture = tightest_kmeans(x, count, 0, n_init=5)[0], gaussian_mixture(x, count, 0, n_init=2).predict(x)
    return measured(labels), {K_MEANS: measured(kmeans), MIXTURE: measured(mixture)}


def _silhouette(x: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import silhouette_score

    some = np.random.default_rng(0).permutation(len(x))[:SILHOUETTE_ROWS]
    if not 2 <= len(np.unique(labels[some])) < len(some):
        return None
    score = float(silhouette_score(x[some], labels[some]))
    return score if math.isfinite(score) else None
