"""Contrastive terms: L_CT / InfoNCE (Eqs. 1-2), NT-Xent, ProtoCPC (App. D) and the energy they imply (Eq. 9).

All negatives are rows of the given tensors: with several processes, gather the batch first and pass all of it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch.nn import functional as F

from gedi.objectives.precision import full_precision
from gedi.objectives.term import Loss, Term
from gedi.settings import Positive

if TYPE_CHECKING:
    from gedi.objectives.views import Views


Similarity = Literal["dot", "cosine", "negative_squared_distance"]


def dot(z: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """z_i^T z'_j, for all pairs."""
    return z @ other.T


def cosine(z: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """z_i^T z'_j / (||z_i|| ||z'_j||), for all pairs."""
    return F.normalize(z, dim=1) @ F.normalize(other, dim=1).T


def negative_squared_distance(z: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """-||z_i - z'_j||^2, for all pairs; between unit vectors it is 2 cosine - 2."""
    # |a|^2 - 2ab + |b|^2 needs no [n, m, h] tensor, but loses precision far from the origin. So the origin is moved
    # among the points; neither the distances nor their gradients depend on it.
    origin = other.detach().mean(dim=0)
    z, other = z - origin, other - origin
    return 2 * z @ other.T - (z**2).sum(dim=1, keepdim=True) - (other**2).sum(dim=1)


SIMILARITIES = {
    "dot": dot,
    "cosine": cosine,
    "negative_squared_distance": negative_squared_distance,
}


@full_precision
def similarity_logits(z: torch.Tensor, other: torch.Tensor, *, tau: float, similarity: str) -> torch.Tensor:
    """sim(z_i, z'_j) / tau, shape [len(z), len(other)]: the logits of Eq. 1."""
    if similarity not in SIMILARITIES:
        raise ValueError(f"similarity {similarity!r} is not one of {', '.join(SIMILARITIES)}")
    return SIMILARITIES[similarity](z, other) / tau


def instance_log_probs(z: torch.Tensor, other: torch.Tensor, *, tau: float, similarity: str) -> torch.Tensor:
    """log p(l|x_i; Theta) of Eq. 1, [len(z), len(other)]: which row of ``other`` matches z_i, among all of them."""
    return torch.log_softmax(similarity_logits(z, other, tau=tau, similarity=similarity), dim=1)


def contrastive_log_likelihood(
    z: torch.Tensor, other: torch.Tensor | None = None, *, tau: float, similarity: str
) -> torch.Tensor:
    """L_CT of Eq. 2, summed over samples: sum_i log p(l_i = i|x_i; Theta).

    ``other`` holds g of a second view. Without it, this is the equation as printed, which compares every x_i with
    itself: with cosine or distance the numerator is then constant, and what is left only pushes samples apart.
    """
    log_probs = instance_log_probs(z, z if other is None else other, tau=tau, similarity=similarity)
    return log_probs.diagonal().sum()


def info_nce_loss(z: torch.Tensor, z_view: torch.Tensor, *, tau: float, similarity: str) -> torch.Tensor:
    """-L_CT / n, averaged over both directions: at least zero, and log n if all embeddings are equal."""
    one = contrastive_log_likelihood(z, z_view, tau=tau, similarity=similarity)
    two = contrastive_log_likelihood(z_view, z, tau=tau, similarity=similarity)
    return -(one + two) / (2 * len(z))


def nt_xent_loss(z: torch.Tensor, z_view: torch.Tensor, *, tau: float, similarity: str) -> torch.Tensor:
    """NT-Xent of SimCLR: Eq. 2 over the 2n rows of both views, where no row is a candidate for itself."""
    both = torch.cat([z, z_view])
    logits = similarity_logits(both, both, tau=tau, similarity=similarity)
    logits = logits.masked_fill(torch.eye(len(both), dtype=torch.bool, device=both.device), -torch.inf)
    partner = torch.arange(len(both), device=both.device).roll(len(z))
    return F.cross_entropy(logits, partner)


@full_precision
def teacher_probabilities(scores: torch.Tensor, *, tau: float) -> torch.Tensor:
    """p^t(x) of App. D; a ``tau`` below the student's sharpens it. Pass detached scores."""
    return torch.softmax(scores / tau, dim=1)


def teacher_marginal(probabilities: torch.Tensor) -> torch.Tensor:
    """q^t of App. D, the batch mean of p^t (ProtoCPC's authors use a running mean).

    As a prior it does what centring does for other teachers: frequent prototypes earn less.
    """
    return probabilities.mean(dim=0)


@full_precision
def protocpc_bound(scores: torch.Tensor, teacher: torch.Tensor, marginal: torch.Tensor, *, tau: float) -> torch.Tensor:
    """I_ProtoCPC of App. D: mean_i p^t(x_i)^T s_i - log sum_c q^t_c exp s_ic, with s the student's scores / tau.

    If ``marginal`` is the mean of ``teacher``, it is at most the InfoNCE of `bounds.prototypical_critic` on every
    batch, not only on average, with equality if the teacher is certain. With a running mean it may exceed the InfoNCE.
    """
    scores = scores / tau
    return ((teacher * scores).sum(dim=1) - torch.logsumexp(scores + marginal.log(), dim=1)).mean()


def contrastive_log_density(z: torch.Tensor, bank: torch.Tensor, *, tau: float, similarity: str) -> torch.Tensor:
    """-E(x; Theta) = log sum_j exp(sim(g(x_j), g(x)) / tau) of Eq. 9, one value per row: log p(x) + log Gamma.

    ``bank`` holds g of the samples that define the density. EBCLR uses the negative squared distance, the mean over
    the bank (lower by log n), and a penalty on ||z||^2 that Eq. 9 does not have.

    >>> contrastive_log_density(torch.zeros(1, 2), torch.zeros(1, 2), tau=0.1, similarity="cosine").item()
    0.0
    """
    return torch.logsumexp(similarity_logits(z, bank, tau=tau, similarity=similarity), dim=1)


# -- terms ------------------------------------------------------------------------------------------------------------


@dataclass
class Contrastive(Term, family="contrastive"):
    """A loss that contrasts the embeddings of two views with those of all other rows."""

    tau: Positive = 0.1  # temperature
    similarity: Similarity = "cosine"  # similarity of two embeddings

    def losses(self, views: Views) -> dict[str, Loss]:
        return {"contrastive": Loss(self.loss(views), self.weight)}

    @abstractmethod
    def loss(self, views: Views) -> torch.Tensor:
        """The loss between two views of the batch."""


@dataclass
class InfoNce(Contrastive):
    """-L_CT, averaged over both directions."""

    kind: str = "infonce"
    equation: ClassVar[str] = "Eqs. 1-2"

    def loss(self, views: Views) -> torch.Tensor:
        return info_nce_loss(*views.contrasted, tau=self.tau, similarity=self.similarity)


@dataclass
class NtXent(Contrastive):
    """NT-Xent, SimCLR's loss."""

    kind: str = "nt-xent"
    tau: Positive = 0.5  # temperature
    equation: ClassVar[str] = "Eq. 2 over both views"

    def loss(self, views: Views) -> torch.Tensor:
        return nt_xent_loss(*views.contrasted, tau=self.tau, similarity=self.similarity)


@dataclass
class ProtoCpc(Contrastive):
    """ProtoCPC, with the averaged weights as the teacher and its mean over the batch as the prior."""

    kind: str = "protocpc"
    sharpness: Positive = 0.04  # temperature of the teacher; below tau it sharpens
    equation: ClassVar[str] = "App. D"
    has_clusters: ClassVar[bool] = True

    def loss(self, views: Views) -> torch.Tensor:
        """Each view's scores against the teacher's probabilities of the other."""
        scores, scores_view = views.pair(views.scores[0])
        teacher, teacher_view = teacher_probabilities(views.teacher_scores, tau=self.sharpness).chunk(2)
        marginal = teacher_marginal(torch.cat([teacher, teacher_view]))
        one = protocpc_bound(scores, teacher_view, marginal, tau=self.tau)
        two = protocpc_bound(scores_view, teacher, marginal, tau=self.tau)
        return -(one + two) / 2
