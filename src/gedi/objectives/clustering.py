"""Cluster-based terms: L_DI (Eqs. 3-5) with assignments by Sinkhorn-Knopp or k-means, or with a prior on clusters.

Assignments and marginals are computed over the given rows: with several processes, gather the batch first.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch

from gedi.errors import ConfigError
from gedi.objectives.term import Loss, Term
from gedi.settings import Count, NotNegative, Positive

if TYPE_CHECKING:
    from gedi.objectives.views import Views


def cluster_log_probs(scores: torch.Tensor, tau: float) -> torch.Tensor:
    """log p(y|x; Theta) from cosine scores U^T g(x) (Eq. 3)."""
    # Clusters are few and rows are many: with rows next to each other in memory, this takes a tenth of the time.
    by_cluster = (scores if tau == 1 else scores / tau).transpose(-1, -2).contiguous()
    return torch.log_softmax(by_cluster, dim=-2).transpose(-1, -2)


@torch.no_grad()
def sinkhorn(scores: torch.Tensor, *, epsilon: float, iterations: int) -> torch.Tensor:
    """q(y|x), the maximiser of Eq. 5 over Q with equal column masses, by Sinkhorn-Knopp in the log domain.

    Rows of ``scores`` [..., n, c] sum to one exactly (the last update is over rows); columns sum to n / c at
    convergence. Always float32 or wider: ``exp(scores / epsilon)`` overflows in half precision. SwAV's own code starts
    with the columns; rows first makes q invariant to a constant added to a row, and the limit is the same.

    >>> q = sinkhorn(torch.tensor([[1e4, -1e4], [-1e4, 1e4]]), epsilon=0.01, iterations=3)
    >>> q.sum(1).tolist(), q.sum(0).tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    log_q = scores.detach().to(torch.promote_types(scores.dtype, torch.float32)) / epsilon
    # Shift each row's largest score to zero: near 1e6, float32 has steps of 0.06, and rows would sum to 0.97 or 1.03.
    log_q = log_q - log_q.amax(dim=-1, keepdim=True)
    n, c = log_q.shape[-2:]
    row = torch.logsumexp(log_q, dim=-1, keepdim=True)
    column = torch.zeros_like(log_q[..., :1, :])
    for _ in range(iterations):
        column = math.log(n / c) - torch.logsumexp(log_q - row, dim=-2, keepdim=True)
        row = torch.logsumexp(log_q + column, dim=-1, keepdim=True)
    return torch.exp(log_q + column - row)


def clustering_loss(assignments: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """-E_q log p(y|x): the part of -L_DI / n that depends on Theta (Eq. 4; the entropy of q is constant)."""
    return -(assignments * log_probs).sum(dim=-1).mean(dim=-1)


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


def marginal(log_probs: torch.Tensor) -> torch.Tensor:
    """log of the mean prediction over the rows of ``log_probs`` [..., n, c]."""
    return torch.logsumexp(log_probs, dim=-2) - math.log(log_probs.shape[-2])


def entropy(log_probs: torch.Tensor) -> torch.Tensor:
    """H(p) of the distributions in the last dimension."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def invariance_loss(log_probs: torch.Tensor, other_log_probs: torch.Tensor) -> torch.Tensor:
    """-E_q log p(y|x) of Eq. 4 with each view's prediction as the other's q; gradients flow through both.

    Small only if the views agree and are certain.
    """
    one = clustering_loss(log_probs.exp(), other_log_probs)
    two = clustering_loss(other_log_probs.exp(), log_probs)
    return (one + two) / 2


def marginal_kl(log_mean: torch.Tensor, marginals: torch.Tensor | None = None) -> torch.Tensor:
    """KL(mean prediction || prior on clusters); with the uniform prior (None) it is log c - H(mean)."""
    if marginals is None:
        return math.log(log_mean.shape[-1]) - entropy(log_mean)
    return (log_mean.exp() * (log_mean - marginals.to(log_mean).log())).sum(dim=-1)


class Agreement(NamedTuple):
    """What two views' predictions have in common: their invariance loss, and the log of their mean prediction."""

    invariance: torch.Tensor
    log_mean: torch.Tensor

    def detach(self) -> Agreement:
        return Agreement(self.invariance.detach(), self.log_mean.detach())


def agreement(log_probs: torch.Tensor, other_log_probs: torch.Tensor) -> Agreement:
    """Computed once, for the loss and for the share that judges the heads."""
    log_mean = torch.logaddexp(marginal(log_probs), marginal(other_log_probs)) - math.log(2)
    return Agreement(invariance_loss(log_probs, other_log_probs), log_mean)


def prior_clustering_loss(seen: Agreement, *, prior: float, marginals: torch.Tensor | None = None) -> torch.Tensor:
    """Invariance, plus ``prior`` times the KL of the mean prediction from the prior on clusters (docs/family.md).

    Never negative, and zero only if the views agree, are certain, and match the prior on average. Without the prior,
    putting all points in one cluster would be best.
    """
    return seen.invariance + prior * marginal_kl(seen.log_mean, marginals)


def unexplained_share(seen: Agreement) -> torch.Tensor:
    """The share of one view's cluster entropy that remains when the other view is known: 0 is best, 1 is chance.

    It is fair to clusters of unequal sizes, unlike the loss above, which rewards equal ones, and unlike the invariance
    alone, which rewards a single one.
    """
    return (seen.invariance + 1e-3) / entropy(seen.log_mean).clamp_min(1e-6)  # a single cluster: 1000


# -- terms ------------------------------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """For each head, [heads]: the loss between two views, and the value by which heads are compared."""

    losses: torch.Tensor
    judged: torch.Tensor


@dataclass
class Clustering(Term, family="clustering"):
    """Base of the cluster-based terms: L_DI(Theta; T) and L_DI(Theta; p_Psi), for every head and the neutral one."""

    dam: NotNegative = 1.0  # weight of the loss between x and the end of its walk; `weight` is that between x and x'
    neutral: NotNegative = 4.0  # weight of the neutral head's loss, relative to that of the heads
    tau: Positive = 0.1  # temperature of p(y|x)
    has_clusters: ClassVar[bool] = True

    @property
    def is_active(self) -> bool:
        return bool(self.weight or self.dam)

    @property
    def walks(self) -> bool:
        return bool(self.dam)

    def losses(self, views: Views) -> dict[str, Loss]:
        parts = (("clustering_augment", self.weight), ("clustering_dam", self.dam))
        scores, *others = views.scores_by_view
        losses: dict[str, Loss] = {}
        for (name, weight), other in zip(parts, others, strict=False):
            found = self.compare(views, scores, other, views.marginals)
            losses[name] = Loss(found.losses.mean(), weight, judges=found.judged.detach())
        if views.neutral_scores_by_view is not None:
            neutral, *neutral_others = views.neutral_scores_by_view
            for (name, weight), other in zip(parts, neutral_others, strict=False):
                found = self.compare(views, neutral, other, None)
                losses[f"neutral_{name}"] = Loss(found.losses.sum(), weight * self.neutral)
        if views.anchor:
            distance = clustering_loss(views.one_hot_labels(), cluster_log_probs(scores[0], self.tau))
            losses["anchor"] = Loss(distance, views.anchor)
        return losses

    @abstractmethod
    def compare(
        self, views: Views, scores: torch.Tensor, other: torch.Tensor, marginals: torch.Tensor | None
    ) -> Compared:
        """Compare the scores [heads, n, c] of two views, head by head."""


@dataclass
class Prior(Clustering):
    """L_DI with each view's prediction as the other's target, and a prior on cluster sizes instead of Sinkhorn."""

    kind: str = "prior"
    tau: Positive = 1.0  # temperature of p(y|x)
    prior: NotNegative = 2.0  # weight of the prior on cluster sizes, relative to the agreement of the views
    equation: ClassVar[str] = "Eqs. 3-4 with a prior on p(y)"

    def compare(
        self, views: Views, scores: torch.Tensor, other: torch.Tensor, marginals: torch.Tensor | None
    ) -> Compared:
        log_p, other_log_p = (cluster_log_probs(some, self.tau) for some in (scores, other))
        seen = agreement(log_p, other_log_p)
        losses = prior_clustering_loss(seen, prior=self.prior, marginals=marginals)
        return Compared(losses, unexplained_share(seen.detach()))


@dataclass
class Sinkhorn(Clustering):
    """L_DI with assignments by Sinkhorn-Knopp, computed for each view as in SwAV."""

    kind: str = "sinkhorn"
    epsilon: Positive = 0.05  # weight of the entropy in the assignment
    iterations: Count = 3  # Sinkhorn-Knopp iterations
    equation: ClassVar[str] = "Eqs. 3-5"

    def compare(
        self, views: Views, scores: torch.Tensor, other: torch.Tensor, marginals: torch.Tensor | None
    ) -> Compared:
        q, other_q = (sinkhorn(some, epsilon=self.epsilon, iterations=self.iterations) for some in (scores, other))
        losses = swapped_loss(scores, other, q, other_q, self.tau)
        return Compared(losses, losses)


@dataclass
class KMeans(Clustering):
    """L_DI with hard assignments: regular k-means on all embeddings, whose centres become prototypes (DeepCluster).

    There are no walks, since k-means labels only the rows themselves, and only one head, since each row has one label.
    """

    kind: str = "kmeans"
    dam: NotNegative = 0.0  # must be 0
    every: Count = 50  # iterations between k-means runs
    equation: ClassVar[str] = "Eqs. 3-4 with q by k-means"
    labels_rows: ClassVar[bool] = True

    def relabels(self, iteration: int) -> bool:
        return iteration % self.every == 0

    def compare(
        self, views: Views, scores: torch.Tensor, other: torch.Tensor, marginals: torch.Tensor | None
    ) -> Compared:
        q = views.one_hot_labels()
        losses = swapped_loss(scores, other, q, q, self.tau)
        return Compared(losses, losses)

    def check(self) -> None:
        if self.dam:
            raise ConfigError("dam must be 0 with assignments by k-means")
