"""Bounds: on the mutual information (Apps. B-D) and the log-likelihood (App. A), and L_DI as Eqs. 4-5 state it.

``joint`` holds f(x_i, z_i) at pairs drawn together; ``critic[k, i]`` is f(x_k, z_i), so its diagonal is ``joint``;
``log_z`` holds log Z(z_i) with Z(z) = E_p(x') exp f(x', z). Each bound averages over i and is to be maximised.

The inequalities UBA <= I and so on hold for the true Z. The logarithm of an estimate of Z from few samples is too small
on average (Jensen), so UBA with an estimated ``log_z`` is not a bound. TUBA and NWJ are linear in Z and remain bounds,
and so does InfoNCE. A deterministic encoder of continuous data has I = infinity, and then all of them hold trivially.

No term uses these functions. They state the paper's claims, and the tests check them.
"""

from __future__ import annotations

import math

import torch

from gedi.objectives.clustering import cluster_log_probs
from gedi.objectives.precision import full_precision


@full_precision
def log_partition(critic: torch.Tensor) -> torch.Tensor:
    """log of the mean of exp f(x_k, z_i) over k != i: Z(z_i) from the samples that are independent of z_i."""
    n = len(critic)
    own = torch.eye(n, dtype=torch.bool, device=critic.device)
    return torch.logsumexp(critic.masked_fill(own, -torch.inf), dim=0) - math.log(n - 1)


def uba_bound(joint: torch.Tensor, log_z: torch.Tensor) -> torch.Tensor:
    """I_UBA of App. B: E f - E log Z(z); equal to I where f is log p(x|z) - log p(x) plus any function of z."""
    return joint.mean() - log_z.mean()


def tuba_bound(joint: torch.Tensor, log_z: torch.Tensor, log_eta: torch.Tensor) -> torch.Tensor:
    """I_TUBA of App. B: E f - E[Z(z) / eta(z) + log eta(z) - 1] <= I_UBA, with equality where eta = Z."""
    return joint.mean() - (torch.exp(log_z - log_eta) + log_eta - 1).mean()


def nwj_bound(joint: torch.Tensor, log_z: torch.Tensor) -> torch.Tensor:
    """I_NWJ of App. B: E f - E Z(z) / e, which is I_TUBA with eta = e."""
    return joint.mean() - torch.exp(log_z - 1).mean()


@full_precision
def infonce_bound(critic: torch.Tensor) -> torch.Tensor:
    """I_NCE of App. C: mean_i log(exp f(x_i, z_i) / mean_k exp f(x_k, z_i)), never above log n."""
    return math.log(len(critic)) + torch.log_softmax(critic, dim=0).diagonal().mean()


def elbo_ebm(scores: torch.Tensor, log_gamma: torch.Tensor, log_prior: torch.Tensor) -> torch.Tensor:
    """ELBO_EBM of App. A: E[f(x, z) + log p(z) - log Gamma(z)] at z = g(x), with p(x|z) = exp f(x, z) / Gamma(z).

    It bounds E log p(x) from below if z is discrete. For continuous z the paper's claim is false: its fourth line
    drops the entropy of q(z|x) = delta(z - g(x)), which is zero only for a discrete z and minus infinity otherwise.
    With a prior of density one the value is -H(X) + I_UBA (App. B), above E log p(x) = -H(X) whenever I_UBA is
    positive. As an objective for f nothing changes, since the missing entropy does not depend on f.
    """
    return (scores + log_prior - log_gamma).mean()


@full_precision
def prototypical_critic(scores: torch.Tensor, teacher: torch.Tensor, *, tau: float) -> torch.Tensor:
    """f(x_k, x_i) = sum_c p^t_c(x_k) log p^s_c(x_i) of App. D, shape [k, i], from the student's ``scores``."""
    return teacher @ torch.log_softmax(scores / tau, dim=1).T


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
