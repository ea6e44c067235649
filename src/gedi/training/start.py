"""Where the clusters of step 2 start: a cut of the graph that DAM walks draw over the data."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import k_means
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import kneighbors_graph

from gedi.data.augment import main_directions
from gedi.data.scaled_rows import Rows

NEIGHBOURS, DIRECTIONS = 12, 20  # of the neighbours' graph: a row's edges at most, and eigenvectors


class Start(NamedTuple):
    """Labels to start from, and the share of walks that leave their own cluster (lower is better)."""

    labels: np.ndarray
    crossing: float | None
    centres: np.ndarray | None = None  # of clusters found in L_NF's space


def cut_graph(
    points: np.ndarray, ends: list[np.ndarray], n_clusters: int, *, nodes: int, seed: int, fewest: int = 0
) -> Start:
    """Group the points so that few walks cross between groups: a normalised cut (spectral clustering).

    ``ends[k][i]`` is where the k-th walk from point i ended. The graph's nodes are micro-clusters of the points, and
    every walk is an edge from its point's node to the node nearest to its end. The similarity is the model's own, not
    a kernel chosen in advance. A micro-cluster of fewer than ``fewest`` points is no node, its points go with the
    nearest one: else an outlier whose few walks all stay with it is the cheapest cut there is.
    """
    # A node of fewer than five points says little about where its walks go.
    place, centres = kmeans(points, max(n_clusters, min(nodes, len(points) // 5)), seed)
    large = np.bincount(place, minlength=len(centres)) >= fewest
    if large.sum() >= n_clusters:
        centres = centres[large]
        place = pairwise_distances_argmin(points, centres)
    edges = np.zeros((len(centres), len(centres)))
    for end in ends:
        np.add.at(edges, (place, pairwise_distances_argmin(end, centres)), 1.0)
    edges = edges + edges.T
    groups = _spectral(edges, n_clusters, seed)
    crossing = float(edges[groups[:, None] != groups[None, :]].sum() / edges.sum())
    return Start(groups[place], crossing)


def _spectral(edges: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """Clusters of the nodes, from the leading eigenvectors of the normalised graph."""
    root = np.sqrt(np.maximum(edges.sum(1), 1e-12))
    vectors = np.linalg.eigh(edges / np.outer(root, root))[1][:, -n_clusters:]
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return kmeans(vectors, n_clusters, seed, n_init=20)[0]


def neighbour_space(x: Rows | np.ndarray) -> np.ndarray:
    """Rows as the leading eigenvectors of the graph of mutual neighbours, on the unit sphere.

    Degrees are raised by a tenth of their mean (regularised spectral clustering): a few rows that know only each other
    would else have leading eigenvectors to themselves.
    """
    n = len(x)
    one_way = csr_array(kneighbors_graph(main_directions(x), min(NEIGHBOURS, n - 1)))
    edges = one_way.multiply(one_way.T) + 1e-3 * eye_array(n)
    degree = edges.sum(1)
    root = diags_array(1 / np.sqrt(degree + 0.1 * degree.mean()))
    # A first vector of its own: scipy's is drawn from the global generator.
    size, first = min(DIRECTIONS, n - 1), np.ones(n)
    vectors = eigsh(root @ edges @ root, k=size, which="LA", v0=first, tol=1e-4)[1]  # type: ignore[arg-type]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def kmeans(x: np.ndarray, k: int, seed: int, n_init: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Labels and centres of the tightest of ``n_init`` runs; copes with fewer distinct rows than clusters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = k_means(x, min(k, len(x)), n_init=n_init, random_state=seed)  # type: ignore[arg-type]
    return np.asarray(found[1]), np.asarray(found[0])
