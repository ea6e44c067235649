"""Cluster-based terms: L_DI (Eqs. 3-5) with assignments by Sinkhorn-Knopp or k-means, or with a prior on clusters.

Assignments and marginals are those of the rows given: with several processes, gather the batch first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

import torch

from gedi.errors import ConfigError
from gedi.objectives.contrastive import negative_squared_distance
from gedi.objectives.precision import full_precision
from gedi.objectives.term import Loss, Term
from gedi.settings import Count, Natural, NotNegative, Positive, Rule

if TYPE_CHECKING:
    from gedi.objectives.views import Views

Firmness = Annotated[float, Rule("lie in (0, 1]", lambda value: 0 < value <= 1)]


def cluster_log_probs(scores: torch.Tensor, tau: float) -> torch.Tensor:
    """log p(y|x; Theta) from cosine scores U^T g(x) (Eq. 3)."""
    return torch.log_softmax(scores / tau, dim=1)


@torch.no_grad()
def sinkhorn(
    scores: torch.Tensor,
    *,
    epsilon: float,
    iterations: int,
    firmness: float,
    marginals: torch.Tensor | None = None,
) -> torch.Tensor:
    """q(y|x), the maximiser of Eq. 5 over Q with given column masses, by Sinkhorn-Knopp in the log domain.

    Rows sum to one exactly (the last update is over rows); columns sum to ``n * marginals`` (uniform if None) at
    convergence. ``firmness`` in (0, 1] softens the columns' constraint as unbalanced optimal transport does (rho /
    (rho + epsilon)): at 1 it is exact, near 0 it is a plain softmax. Random batches are never exactly balanced, and
    forcing them to be mislabels the points in excess. Always float32 or wider: ``exp(scores / epsilon)`` overflows in
    half precision. SwAV's own code starts with the columns; rows first makes q invariant to a constant added to a
    row, and the limit is the same.

    >>> q = sinkhorn(torch.tensor([[1e4, -1e4], [-1e4, 1e4]]), epsilon=0.01, iterations=3, firmness=1.0)
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


class Partition(NamedTuple):
    """Hard assignments [n, c], one-hot as q(y|x) of Eq. 4, and the centres [c, h] they belong to."""

    assignments: torch.Tensor
    centres: torch.Tensor


@torch.no_grad()
@full_precision
def kmeans_partition(z: torch.Tensor, start: torch.Tensor, *, iterations: int = 20) -> Partition:
    """q(y|x) of DeepCluster: one k-means of all embeddings, from the centres ``start``.

    Starting from the previous centres keeps the clusters' numbers, so that a classifier need not be learned again. A
    cluster that loses all its points takes the point farthest from its centre, because an empty class stays empty.
    """
    centres = start.to(z)
    if len(z) < len(centres):
        raise ValueError(f"{len(centres)} clusters need at least as many embeddings, got {len(z)}")
    labels = negative_squared_distance(z, centres).argmax(dim=1)
    for _ in range(iterations):
        centres = _means(z, labels, centres)
        moved = negative_squared_distance(z, centres).argmax(dim=1)
        if torch.equal(moved, labels):
            break
        labels = moved
    return Partition(torch.nn.functional.one_hot(labels, len(centres)).to(z.dtype), centres)


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
    prior: float,
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


# -- terms ------------------------------------------------------------------------------------------------------------


@dataclass
class Clustering(Term, family="clustering"):
    """What cluster-based terms share: L_DI(Theta; T), L_DI(Theta; p_Psi) and fidelity to the start."""

    dam: NotNegative = 1.0  # weight of the loss between x and the end of its walk; `weight` is that between x and x'
    anchor: NotNegative = 1.0  # weight of agreement with the initial labels; decays to zero over `start.fade`
    tau: Positive = 0.1  # temperature of p(y|x)
    marginals: Literal["uniform", "start"] = "start"  # target cluster sizes: equal, or those of the start
    has_clusters: ClassVar[bool] = True
    trains_prototypes: ClassVar[bool] = True

    @property
    def is_active(self) -> bool:
        return any((self.weight, self.dam, self.anchor))

    @property
    def walks(self) -> bool:
        return bool(self.dam)

    def anchored(self, views: Views) -> dict[str, Loss]:
        """How far x is from its label at the start; nothing if there was no start."""
        if views.all_labels is None:
            return {}
        loss = clustering_loss(views.one_hot_labels(), cluster_log_probs(views.scores_by_view[0], self.tau))
        return {"anchor": Loss(loss, self.anchor * views.start_weight)}

    def weighed(self, augmented: torch.Tensor, walked: torch.Tensor | None = None) -> dict[str, Loss]:
        """L_DI(Theta; T) and, if there are walks, L_DI(Theta; p_Psi)."""
        losses = {"clustering_augment": Loss(augmented, self.weight, judges=True)}
        if walked is not None:
            losses["clustering_dam"] = Loss(walked, self.dam, judges=True)
        return losses


@dataclass
class Sinkhorn(Clustering):
    """L_DI with assignments by Sinkhorn-Knopp, as in SwAV."""

    kind: str = "sinkhorn"
    epsilon: Positive = 0.05  # entropy of the assignment
    iterations: Count = 3  # Sinkhorn-Knopp iterations
    firmness: Firmness = 0.8  # how strictly a batch must match the marginals: 1 exactly (SwAV), near 0 not at all
    queue: Natural = 0  # past embeddings that join the assignment, as SwAV's queue (0: none)
    frozen: Natural = 0  # first iterations of step 2 in which the prototypes do not move (SwAV: an epoch)
    equation: ClassVar[str] = "Eqs. 3-5"

    @property
    def memory(self) -> int:
        return self.queue

    def losses(self, views: Views) -> dict[str, Loss]:
        (s, s_aug, *s_walk), (q, q_aug, *q_walk) = views.scores_by_view, self.assign(views).split(views.n)
        augmented = swapped_loss(s, s_aug, q, q_aug, self.tau)
        return self.weighed(augmented, swapped_loss(s, s_walk[0], q, q_walk[0], self.tau) if s_walk else None)

    def assign(self, views: Views) -> torch.Tensor:
        """q(y|x) of all views, with past embeddings beside them."""
        pool = torch.cat([views.scores, views.past_scores()]) if len(views.past) else views.scores
        q = sinkhorn(
            pool, epsilon=self.epsilon, iterations=self.iterations, firmness=self.firmness, marginals=views.marginals
        )
        return q[: len(views.scores)]

    def holds_prototypes(self, iteration: int) -> bool:
        return iteration < self.frozen


@dataclass
class Prior(Clustering):
    """L_DI with each view's prediction as the other's target, and a prior on cluster sizes instead of Sinkhorn."""

    kind: str = "prior"
    prior: float = 1.0  # weight of the cluster sizes against the views' agreement
    equation: ClassVar[str] = "Eqs. 3-4 with a prior on p(y)"

    def losses(self, views: Views) -> dict[str, Loss]:
        log_p, *others = cluster_log_probs(views.scores, self.tau).split(views.n)
        return self.weighed(
            *(prior_clustering_loss(log_p, other, prior=self.prior, marginals=views.marginals) for other in others)
        )


@dataclass
class KMeans(Clustering):
    """L_DI with hard assignments: k-means of all embeddings every so often, its centres as prototypes (DeepCluster).

    There is no loss along walks, since k-means sees the rows alone, and no anchor: its labels replace the start's.
    """

    kind: str = "kmeans"
    dam: NotNegative = 0.0  # must be 0
    anchor: NotNegative = 0.0  # must be 0
    marginals: Literal["uniform", "start"] = "uniform"  # unused: k-means decides the sizes
    every: Count = 50  # iterations between k-means runs
    equation: ClassVar[str] = "Eqs. 3-4 with q by k-means"

    def relabels(self, iteration: int) -> bool:
        return iteration % self.every == 0

    def losses(self, views: Views) -> dict[str, Loss]:
        q = views.one_hot_labels()
        return self.weighed(swapped_loss(*views.pair(views.scores), q, q, self.tau))

    def anchored(self, views: Views) -> dict[str, Loss]:
        return {}

    def check(self) -> None:
        if self.dam or self.anchor:
            raise ConfigError("dam and anchor must be 0 with assignments by k-means")
