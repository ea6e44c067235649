"""Where the clusters of step 2 start, and what the start does afterwards; no labels are involved.

The default start cuts the graph that DAM walks draw over the data. A weight that decays ties the clusters to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import k_means
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from torch.nn import functional as F

from gedi.data.neighbours import main_directions, nearest_neighbours
from gedi.data.scaled_rows import Rows
from gedi.nets.densities import evaluating
from gedi.objectives.clustering import kmeans_partition
from gedi.objectives.term import constraint_of
from gedi.training.config import TrainingConfig
from gedi.training.grounding import ground

if TYPE_CHECKING:
    from gedi.training.engine import Engine

NEIGHBOURS, DIRECTIONS = 12, 20  # of the neighbours' graph: a row's edges at most, and eigenvectors
MOST_ROWS = 10_000  # of more rows, walks and k-means take a sample of this size; the others join the nearest centre


class Start(NamedTuple):
    """Labels to start from, and the share of walks that leave their own cluster (lower is better)."""

    labels: np.ndarray
    crossing: float | None
    centres: np.ndarray | None = None  # of clusters found in L_NF's space


# -- in a run ---------------------------------------------------------------------------------------------------------


def set_start(run: Engine, seed: int) -> None:
    """Labels that step 2 starts from, and the cluster sizes they imply."""
    state = run.state
    if "clustering" not in run.config.objective:  # no term would use them
        return
    start = run.world.from_main(lambda: find_start(run, seed))
    if start is None:
        return
    run.walk_crossing = start.crossing
    state.start_labels = torch.as_tensor(start.labels, dtype=torch.long, device=run.x.device)
    if run.config.objective["clustering"].marginals == "start":
        counts = torch.bincount(state.start_labels, minlength=run.n_clusters).float() + 1.0
        state.marginals = counts / counts.sum()
    if run.config.start.heads and start.centres is not None:
        set_heads(run, start.centres)


def start_weight(config: TrainingConfig, iteration: int) -> float:
    """What is left of the start's weight in an iteration of step 2: it decays linearly to zero."""
    return max(0.0, 1.0 - iteration / max(1.0, config.start.fade * config.step2.iterations))


@torch.no_grad()
def set_heads(run: Engine, centres: np.ndarray) -> None:
    """Let step 2 begin with the start's clusters: a few iterations are not enough to learn many of them again."""
    for net in (run.state.net, run.state.average):
        net.projector.load_state_dict(net.nf_projector.state_dict())
        _place(net.prototypes.directions, centres)


@torch.no_grad()
def place_prototypes(run: Engine) -> None:
    """Clusters for methods that train none: k-means of the embeddings, its centres as prototypes."""
    z = run.of_all(run.state.net.embed)
    repeats = run.config.start.repeats
    centres = run.world.from_main(lambda: tightest_kmeans(z.cpu().numpy(), run.n_clusters, 0, n_init=repeats)[1])
    _place(run.state.net.prototypes.directions, centres)


def _place(directions: torch.Tensor, centres: np.ndarray) -> None:
    directions[: len(centres)] = torch.as_tensor(centres).to(directions)


@torch.no_grad()
def relabel(run: Engine) -> None:
    """New labels for every row by k-means from the present prototypes, which then move to its centres (DeepCluster)."""
    net = run.state.net
    with evaluating(net):
        z = run.of_all(lambda x: run.apply(net.embed, x))
    centres = net.prototypes.centres.cpu()
    found = run.world.from_main(lambda: kmeans_partition(z.cpu(), centres))
    run.state.start_labels = found.assignments.argmax(1).to(z.device)
    net.prototypes.directions.copy_(F.normalize(found.centres, dim=1))


@torch.no_grad()
def find_start(run: Engine, seed: int) -> Start | None:
    """A cut of a graph, or k-means in a space that shows the clusters; with a constraint, its values for them."""
    c, grounds = run.config.start, run.groups is not None and run.config.start.ground > 0
    if c.kind == "none":
        return None
    if c.kind == "walks":
        places = _sample(len(run.x), seed)
        some = run.x[:] if len(places) == len(run.x) else run.x[torch.from_numpy(places).to(run.x.device)]
        ends = [run.walk(some, alone=True)[0].cpu().numpy() for _ in range(c.walks)]
        rest = None if len(some) == len(run.x) else (x.cpu().numpy() for x in run.x.split(MOST_ROWS))
        how = {"nodes": c.nodes, "seed": seed, "fewest": c.fewest, "everyone": rest}
        start = cut_graph(some.cpu().numpy(), ends, run.n_clusters, **how)
        return start._replace(labels=grounded(run, [start.labels])) if grounds else start
    z = start_space(run)
    if not grounds:
        labels, centres = tightest_kmeans(z, run.n_clusters, seed, n_init=c.repeats)
        return Start(labels, crossing=None, centres=centres if c.kind == "kmeans" else None)
    finer = max(run.n_clusters, min(c.nodes, len(z) // c.node_rows))
    several = (tightest_kmeans(z, finer, seed + i, n_init=c.repeats)[0] for i in range(c.tries))
    return Start(grounded(run, several), crossing=None)


def start_space(run: Engine) -> np.ndarray:
    """The space in which k-means looks for the start: the graph of neighbours, or the one that L_NF has shaped."""
    if run.config.start.kind == "neighbours":
        return neighbour_space(run.x.to(torch.device("cpu")))
    average = run.state.average
    return F.normalize(run.of_all(lambda x: average.nf_projector(average.encoder(x)))).cpu().numpy()


def grounded(run: Engine, clusterings: Iterable[np.ndarray]) -> np.ndarray:
    """The constraint's values of the rows, in place of clusters whose numbers mean nothing.

    Of several clusterings, the half that the constraint explains best is kept, and the mean is taken: right namings
    agree, and wrong ones err each in its own way.
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


# -- of points alone --------------------------------------------------------------------------------------------------


def cut_graph(
    points: np.ndarray,
    ends: list[np.ndarray],
    n_clusters: int,
    *,
    nodes: int,
    seed: int,
    fewest: int = 0,
    everyone: Iterable[np.ndarray] | None = None,
) -> Start:
    """Group the points so that few walks cross between groups: a normalised cut (spectral clustering).

    ``ends[k][i]`` is where the k-th walk from point i ended. The graph's nodes are micro-clusters of the points, and
    every walk is an edge from its point's node to the node nearest to its end. The similarity is the model's own, not
    a kernel chosen in advance. A micro-cluster of fewer than ``fewest`` points is not a node; its points join the
    nearest one. Otherwise an outlier, whose few walks all stay with it, would be the cheapest cut there is.

    If the points are a sample, ``everyone`` gives all rows in blocks, and the labels are theirs: those of their nearest
    nodes.
    """
    # A node of fewer than five points says little about where its walks go.
    place, centres = tightest_kmeans(points, max(n_clusters, min(nodes, len(points) // 5)), seed)
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
    if everyone is not None:
        place = np.concatenate([pairwise_distances_argmin(rows, centres) for rows in everyone])
    return Start(groups[place], crossing)


def _spectral(edges: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """Clusters of the nodes, from the leading eigenvectors of the normalised graph."""
    root = np.sqrt(np.maximum(edges.sum(1), 1e-12))
    vectors = np.linalg.eigh(edges / np.outer(root, root))[1][:, -n_clusters:]
    return tightest_kmeans(_unit_rows(vectors), n_clusters, seed, n_init=20)[0]


def neighbour_space(x: Rows | np.ndarray) -> np.ndarray:
    """Rows as the leading eigenvectors of the graph of mutual neighbours, on the unit sphere.

    Degrees are raised by a tenth of their mean (regularised spectral clustering). Otherwise a few rows that are only
    each other's neighbours would have leading eigenvectors to themselves.
    """
    n = len(x)
    near = nearest_neighbours(main_directions(x), NEIGHBOURS).places
    k = near.shape[1]
    one_way = csr_array((np.ones(near.size), near.ravel(), np.arange(0, near.size + 1, k)), shape=(n, n))
    edges = one_way.multiply(one_way.T) + 1e-3 * eye_array(n)
    degree = edges.sum(1)
    root = diags_array(1 / np.sqrt(degree + 0.1 * degree.mean()))
    # A first vector of our own: scipy draws its from the global generator.
    size, first = min(DIRECTIONS, n - 1), np.ones(n)
    return _unit_rows(eigsh(root @ edges @ root, k=size, which="LA", v0=first, tol=1e-4)[1])  # type: ignore[arg-type]


def _unit_rows(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def tightest_kmeans(x: np.ndarray, k: int, seed: int, n_init: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Labels and centres of the tightest of ``n_init`` runs; copes with fewer distinct rows than clusters."""
    some = x if len(x) <= MOST_ROWS else x[_sample(len(x), seed)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = k_means(some, min(k, len(some)), n_init=n_init, random_state=seed)  # type: ignore[arg-type]
    labels, centres = np.asarray(found[1]), np.asarray(found[0])
    return (labels if len(some) == len(x) else pairwise_distances_argmin(x, centres)), centres


def _sample(n: int, seed: int) -> np.ndarray:
    """Places of at most `MOST_ROWS` of n rows, in order."""
    return np.sort(np.random.default_rng(seed).choice(n, min(n, MOST_ROWS), replace=False))
