"""Starts: clusterings of the rows, found in seconds and without labels, that compete with the cluster heads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from sklearn.cluster import k_means
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch.nn import functional as F

from gedi.data.neighbours import nearest_neighbours, partial_views
from gedi.objectives.term import constraint_of
from gedi.training.evidence import best_mixture, explained
from gedi.training.grounding import ground

if TYPE_CHECKING:
    from gedi.training.engine import Engine

START_ROWS = 10_000  # if there are more, starts use a random subset of this size, and label the other rows from it
NEIGHBOURS = 10  # of each row, in the graph of neighbours
EM_TRIES = 5  # runs of EM on a table with categories


# -- in a run ---------------------------------------------------------------------------------------------------------


def find_start(run: Engine, kind: str) -> np.ndarray:
    """Labels of all rows by one kind of start; with a constraint, its values for micro-clusters of that kind."""
    grounds = run.groups is not None and run.config.start.ground > 0
    if not grounds:
        return STARTS[kind](run, run.n_clusters, 0)
    c = run.config.start
    finer = max(run.n_clusters, min(c.nodes, len(run.x) // c.node_rows))
    return grounded(run, (STARTS[kind](run, finer, seed) for seed in range(c.tries)))


def cut_of_walks(run: Engine, n_clusters: int, seed: int) -> np.ndarray:
    """Cut the graph of DAM's walks over the density."""
    c = run.config.start
    some, ends = walks_from(run, some_places(len(run.x), seed))
    graph = graph_of(some, ends, n_clusters, nodes=c.nodes, seed=seed, fewest=c.fewest)
    cut = graph.cut(n_clusters, seed)
    return np.concatenate([cut.labels(x.cpu().numpy()) for x in run.x.split(START_ROWS)])


def cut_of_neighbours(run: Engine, n_clusters: int, seed: int) -> np.ndarray:
    """Cut the graph of nearest neighbours."""
    c, x, near = run.config.start, run.directions, neighbour_pairs(run, seed)
    some = x[some_places(len(x), seed)]
    graph = graph_of(some, [some[nearest] for nearest in near.T], n_clusters, nodes=c.nodes, seed=seed, fewest=c.fewest)
    return graph.cut(n_clusters, seed).labels(x)


def kmeans_of_rows(run: Engine, n_clusters: int, seed: int) -> np.ndarray:
    """k-means of the rows; with a constraint, of their representations, whose micro-clusters are purer."""
    x = run.directions
    if run.groups is not None:
        average = run.state.average
        x = F.normalize(run.of_all(average.encoder)).cpu().numpy()
    return tightest_kmeans(x, n_clusters, seed, n_init=run.config.start.repeats)[0]


def mixture_of_rows(run: Engine, n_clusters: int, seed: int) -> np.ndarray:
    """A mixture of Gaussians with full covariances; with categories, of Gaussians and frequencies."""
    x = run.directions
    places = some_places(len(x), seed)
    some = x[places].astype(np.float64)
    if run.words:
        rows = explained(x, run.words)
        found = best_mixture(rows.at(places), some, min(n_clusters, len(some)), tries=EM_TRIES, seed=seed)
        return found.log_joint(rows).argmax(1)
    model = gaussian_mixture(some, min(n_clusters, len(some)), seed, n_init=2)
    return np.concatenate([model.predict(rows) for rows in np.array_split(x, len(x) // START_ROWS + 1)])


STARTS: dict[str, Callable[[Engine, int, int], np.ndarray]] = {
    "walks": cut_of_walks,
    "neighbours": cut_of_neighbours,
    "kmeans": kmeans_of_rows,
    "mixture": mixture_of_rows,
}


def walks_from(run: Engine, places: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The rows at ``places``, and where each of several walks from them ends."""
    some = run.x[torch.from_numpy(places).to(run.x.device)]
    walks = range(run.config.start.walks)
    return some.cpu().numpy(), [run.walk(some, alone=True).cpu().numpy() for _ in walks]


def neighbour_pairs(run: Engine, seed: int = 0) -> np.ndarray:
    """For the rows `some_places`, the nearest among them, [rows, k]; with categories, by half of them at a time.

    The cut of neighbours and the judge of all candidates share one search.
    """
    if seed not in run.pairs_of_neighbours:
        views = partial_views(run.directions[some_places(len(run.x), seed)], run.words)
        near = np.concatenate([nearest_neighbours(view, NEIGHBOURS).places for view in views], axis=1)
        run.pairs_of_neighbours[seed] = near
    return run.pairs_of_neighbours[seed]


def grounded(run: Engine, clusterings: Iterable[np.ndarray]) -> np.ndarray:
    """The constraint's values of the rows, in place of clusters whose order is arbitrary.

    The values are averaged over the half of the clusterings that the constraint explains best: right ones agree, and
    wrong ones are rarely wrong in the same way.
    """
    constraint = constraint_of(run.config.objective)
    assert run.groups is not None and constraint is not None
    found = [
        ground(
            torch.as_tensor(labels, dtype=torch.long),
            run.groups,
            constraint,
            restarts=run.config.start.ground,
            generator=torch.Generator().manual_seed(run.seed),
        )
        for labels in clusterings
    ]
    best = sorted(found, key=lambda grounding: grounding.gain, reverse=True)[: (len(found) + 1) // 2]
    return torch.stack([grounding.values for grounding in best]).mean(0).argmax(1).numpy()


# -- on points alone --------------------------------------------------------------------------------------------------


class GraphCut(NamedTuple):
    """Micro-clusters at ``centres`` [nodes, d], and the cluster of each, ``clusters`` [nodes]."""

    centres: np.ndarray
    clusters: np.ndarray

    def labels(self, points: np.ndarray) -> np.ndarray:
        """The cluster of every point: that of the nearest micro-cluster."""
        return self.clusters[pairwise_distances_argmin(points, self.centres)]


class Graph(NamedTuple):
    """Micro-clusters at ``centres`` [nodes, d]; ``edges`` [nodes, nodes] count the walks between them."""

    centres: np.ndarray
    edges: np.ndarray

    def cut(self, n_clusters: int, seed: int) -> GraphCut:
        """Group the nodes so that few walks cross between groups: a normalised cut (spectral clustering)."""
        return GraphCut(self.centres, _spectral(self.edges, n_clusters, seed))


def graph_of(
    points: np.ndarray, ends: list[np.ndarray], at_least: int, *, nodes: int, seed: int, fewest: int = 0
) -> Graph:
    """The graph of walks between points, with at least ``at_least`` nodes.

    ``ends[k][i]`` is where the k-th walk from point i ended. The graph's nodes are micro-clusters of the points, and
    every walk is an edge from its point's node to the node nearest to its end. The similarity is the model's own, not
    a kernel chosen in advance. A micro-cluster of fewer than ``fewest`` points is not a node; its points join the
    nearest one. Otherwise an outlier, whose few walks all stay with it, would be the cheapest cut.
    """
    # A node of fewer than ten points says little about where its walks go, and a few outliers would form one.
    place, centres = tightest_kmeans(points, max(at_least, min(nodes, len(points) // 10)), seed)
    large = np.bincount(place, minlength=len(centres)) >= fewest
    if large.sum() >= at_least:
        centres = centres[large]
        place = pairwise_distances_argmin(points, centres)
    edges = np.zeros((len(centres), len(centres)))
    for end in ends:
        np.add.at(edges, (place, pairwise_distances_argmin(end, centres)), 1.0)
    return Graph(centres, edges + edges.T)


def _spectral(edges: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """Clusters of the nodes, from the leading eigenvectors of the normalised graph."""
    root = np.sqrt(np.maximum(edges.sum(1), 1e-12))
    vectors = np.linalg.eigh(edges / np.outer(root, root))[1][:, -n_clusters:]
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return tightest_kmeans(vectors, n_clusters, seed, n_init=20)[0]


def tightest_kmeans(x: np.ndarray, k: int, seed: int, n_init: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Labels and centres of the tightest of ``n_init`` runs; also works with fewer distinct rows than clusters."""
    some = x if len(x) <= START_ROWS else x[some_places(len(x), seed)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = k_means(some, min(k, len(some)), n_init=n_init, random_state=seed)  # type: ignore[arg-type]
    labels, centres = np.asarray(found[1]), np.asarray(found[0])
    return (labels if len(some) == len(x) else pairwise_distances_argmin(x, centres)), centres


def kmeans_from(x: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and centres of one run of k-means from ``centres``, whose order stays; empty clusters move to far rows."""
    # One thread: several would add up their shares of the rows in any order, but a run must be repeatable.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = k_means(x, len(centres), init=centres, n_init=1, max_iter=20, tol=0.0, random_state=0)  # type: ignore[arg-type]
    return np.asarray(found[1]), np.asarray(found[0])


def gaussian_mixture(x: np.ndarray, k: int, seed: int, n_init: int = 1) -> GaussianMixture:
    """The best of ``n_init`` mixtures of k Gaussians with full covariances."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(k, reg_covar=1e-3, n_init=n_init, random_state=seed).fit(x)


def some_places(n: int, seed: int) -> np.ndarray:
    """Sorted indices of at most `START_ROWS` of n rows, drawn at random."""
    return np.sort(np.random.default_rng(seed).choice(n, min(n, START_ROWS), replace=False))
