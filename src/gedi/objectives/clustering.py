"""Cluster-based terms: L_DI with Sinkhorn-Knopp assignments (Eqs. 3-5), as in SwAV."""

from __future__ import annotations

import torch


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
