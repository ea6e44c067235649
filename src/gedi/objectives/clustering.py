"""Cluster-based terms: L_DI (Eqs. 3-5) with assignments by Sinkhorn-Knopp or k-means, or with a prior on clusters.

Assignments and marginals are those of the rows given: with several processes, gather the batch first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from gedi.objectives.contrastive import negative_squared_distance
from gedi.objectives.precision import full_precision


def cluster_log_probs(scores: torch.Tensor, tau: float) -> torch.Tensor:
    """log p(y|x; Theta) from cosine scores U^T g(x) (Eq. 3)."""
    return torch.log_softmax(scores / tau, dim=1)


@torch.no_grad()
def sinkhorn(
    scores: torch.Tensor,
    *,
    epsilon: float = 0.05,
    iterations: int = 3,
    marginals: torch.Tensor | None = None,
    firmness: float = 1.0,
) -> torch.Tensor:
    """q(y|x), the maximiser of Eq. 5 over Q with given column masses, by Sinkhorn-Knopp in the log domain.

    Rows sum to one exactly (the last update is over rows); columns sum to ``n * marginals`` (uniform if None) at
    convergence. ``firmness`` in (0, 1] softens the columns' constraint as unbalanced optimal transport does (rho /
    (rho + epsilon)): at 1 it is exact, near 0 it is a plain softmax. Random batches are never exactly balanced, and
    forcing them to be mislabels the points in excess. Always float32 or wider: ``exp(scores / epsilon)`` overflows in
    half precision. SwAV's own code starts with the columns; rows first makes q invariant to a constant added to a
    row, and the limit is the same.

    >>> q = sinkhorn(torch.tensor([[1e4, -1e4], [-1e4, 1e4]]), epsilon=0.01)
    >>> q.sum(1).tolist(), q.sum(0).tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    log_q = scores.detach().to(torch.promote_types(scores.dtype, torch.float32)) / epsilon
    # Largest score of a row at zero: at 1e6 float32 steps by 0.06, and rows would sum to 0.97 or 1.03.
    log_q = log_q - log_q.amax(dim=1, keepdim=True)
    n, c = log_q.shape
    if marginals is None:
        marginals = torch.full((c,), 1.0 / c, device=log_q.device)
    log_mass = torch.log(marginals.to(log_q) * n)
    row = torch.logsumexp(log_q, dim=1, keepdim=True)
    column = torch.zeros_like(log_mass)
    for _ in range(iterations):
        column = firmness * (log_mass - torch.logsumexp(log_q - row, dim=0))
        row = torch.logsumexp(log_q + column, dim=1, keepdim=True)
    return torch.exp(log_q + column - row)


def clustering_loss(assignments: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """-E_q log p(y|x): the part of -L_DI / n that depends on Theta (Eq. 4, the entropy of q is a constant)."""
    return -(assignments * log_probs).sum(dim=1).mean()


def discriminative_bound(assignments: torch.Tensor, scores: torch.Tensor, tau: float) -> torch.Tensor:
    """L_DI of Eq. 4, summed over samples: E_q log p(y|x) + H_q(y|x')."""
    entropy = -torch.xlogy(assignments, assignments).sum()
    return (assignments * cluster_log_probs(scores, tau)).sum() + entropy


def trace_form(assignments: torch.Tensor, scores: torch.Tensor, tau: float) -> torch.Tensor:
    """The right side of Eq. 5: (Tr(Q U^T G) + tau H_Q) / tau, with ``scores`` = (U^T G)^T.

    It equals Eq. 4 plus the log-normalisers sum_i log sum_y exp(score_iy / tau), which the paper leaves out: they do
    not depend on Q, so Sinkhorn's maximiser is the same.
    """
    entropy = -torch.xlogy(assignments, assignments).sum()
    return (torch.trace(assignments @ scores.T) + tau * entropy) / tau


def swapped_loss(
    scores: torch.Tensor,
    other_scores: torch.Tensor,
    assignments: torch.Tensor,
    other_assignments: torch.Tensor,
    tau: float,
) -> torch.Tensor:
    """SwAV's swapped prediction: each view predicts the other view's assignment."""
    one = clustering_loss(assignments, cluster_log_probs(other_scores, tau))
    two = clustering_loss(other_assignments, cluster_log_probs(scores, tau))
    return (one + two) / 2


class KMeans(NamedTuple):
    """Hard assignments [n, c], one-hot as q(y|x) of Eq. 4, and the centres [c, h] they belong to."""

    assignments: torch.Tensor
    centres: torch.Tensor


@torch.no_grad()
@full_precision
def kmeans(
    z: torch.Tensor,
    n_clusters: int,
    *,
    generator: torch.Generator | None = None,
    start: torch.Tensor | None = None,
    iterations: int = 20,
) -> KMeans:
    """q(y|x) of DeepCluster: one k-means of all embeddings, from k-means++ centres or from ``start``.

    Last epoch's centres as ``start`` keep the clusters' numbers, so that a classifier need not be learned anew. A
    cluster that loses all its points takes the point farthest from its centre, as an empty class would stay empty.
    """
    if len(z) < n_clusters:
        raise ValueError(f"{n_clusters} clusters need at least as many embeddings, got {len(z)}")
    centres = _spread_centres(z, n_clusters, generator) if start is None else start.to(z)
    labels = negative_squared_distance(z, centres).argmax(dim=1)
    for _ in range(iterations):
        centres = _means(z, labels, centres)
        moved = negative_squared_distance(z, centres).argmax(dim=1)
        if torch.equal(moved, labels):
            break
        labels = moved
    return KMeans(torch.nn.functional.one_hot(labels, n_clusters).to(z.dtype), centres)


def _spread_centres(z: torch.Tensor, n_clusters: int, generator: torch.Generator | None) -> torch.Tensor:
    """k-means++: each next centre is a row drawn by its squared distance to the nearest centre so far."""
    weights = torch.ones(len(z))  # on the CPU, where the generator is
    nearest = torch.full((len(z),), torch.inf, dtype=z.dtype, device=z.device)
    chosen: list[torch.Tensor] = []
    for _ in range(n_clusters):
        chosen.append(z[torch.multinomial(weights, 1, generator=generator).to(z.device)])
        nearest = torch.minimum(nearest, ((z - chosen[-1]) ** 2).sum(dim=1))
        weights = nearest.cpu() if nearest.sum() > 0 else weights
    return torch.cat(chosen)


def _means(z: torch.Tensor, labels: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """Each cluster's mean; empty clusters move to the rows that are farthest from their own centre."""
    sizes = torch.bincount(labels, minlength=len(centres))
    sums = torch.zeros_like(centres).index_add_(0, labels, z)
    means = sums / sizes.clamp(min=1).unsqueeze(1)
    empty = sizes == 0
    farthest = ((z - means[labels]) ** 2).sum(dim=1).topk(int(empty.sum())).indices
    means[empty] = z[farthest]
    return means


def prediction_entropy(log_probs: torch.Tensor) -> torch.Tensor:
    """Mean of H(p(y|x)): zero where every prediction is certain."""
    return -(log_probs.exp() * log_probs).sum(dim=1).mean()


def marginal_kl(
    log_probs: torch.Tensor, marginals: torch.Tensor | None = None, *, covering: bool = True
) -> torch.Tensor:
    """KL between the prior on clusters (uniform if None) and the batch mean of p(y|x), zero where they are equal.

    ``covering`` is KL(prior || mean): infinite, with a gradient, where a cluster is dead. Otherwise it is
    KL(mean || prior), at most log c under the uniform prior; with ``prediction_entropy`` it adds up to
    log c - I(x; y), the information that predictions lack.
    """
    n, c = log_probs.shape
    log_mean = torch.logsumexp(log_probs, dim=0) - math.log(n)
    if marginals is None:
        marginals = torch.full((c,), 1.0 / c)
    prior = marginals.to(log_probs)
    if covering:
        return (torch.xlogy(prior, prior) - prior * log_mean).sum()
    return (log_mean.exp() * (log_mean - prior.log())).sum()


def prior_clustering_loss(
    log_probs: torch.Tensor,
    other_log_probs: torch.Tensor,
    *,
    prior: float = 1.0,
    marginals: torch.Tensor | None = None,
    covering: bool = True,
) -> torch.Tensor:
    """-L_DI with each view's own prediction as q, and a prior on the marginal instead of Sinkhorn-Knopp (Eq. 4).

    E_q log p without the entropy of q rewards views that agree and are certain; ``prior`` weighs the marginals, which
    keep all points from agreeing on one cluster. Never negative; zero only where views are certain, equal, and as the
    prior says in the mean.
    """
    one = clustering_loss(log_probs.exp(), other_log_probs)
    two = clustering_loss(other_log_probs.exp(), log_probs)
    balance = sum(marginal_kl(view, marginals, covering=covering) for view in (log_probs, other_log_probs))
    return (one + two + prior * balance) / 2
