"""Find which cluster is which value of a constraint, from the constrained groups of rows, without labels.

The constraint's probability alone is not enough: a network that calls every image 0 satisfies a + b == c for certain.
So the clusters are taken as *observed*, and the values as hidden. All models of the constraint are equally likely a
priori, a value v appears as cluster m with probability P(m | v), and

    P(clusters of a group) = mean over the models (v_1, ..., v_k) of P(m_1 | v_1) ... P(m_k | v_k).

This is maximised by EM from random starts, and has no trivial solution: calling everything 0 does not explain which
clusters occur together. There may be more clusters than values, so a digit written in two ways can have two of them.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import torch
from torch.nn import functional as F

from gedi.logic import Constraint

EM_STEPS, EM_MOST = 15, 100  # EM iterations from every start, and at most from the best ones
FINALISTS = 4
MOST_GROUPS = 2_000  # number of groups used in the search: more make it slower, not better
PSEUDO = 1.0  # pseudo-count, so that no cluster is impossible for a value


class Grounding(NamedTuple):
    """The probability of each value of each row, given its group and the constraint, and how much it explains."""

    values: torch.Tensor  # [rows, values]
    gain: float  # log-likelihood of the clusters above that of their sizes alone, in nats per group


def ground(
    clusters: torch.Tensor, groups: torch.Tensor, constraint: Constraint, *, restarts: int, generator: torch.Generator
) -> Grounding:
    """Find the values of all rows from their ``clusters`` [rows] and ``groups`` [groups, variables]."""
    shown = clusters[groups]
    shares = torch.bincount(clusters).double() / len(clusters)
    few = shown[torch.randperm(len(shown), generator=generator)[:MOST_GROUPS]]
    n_values = constraint.variables[0].size
    found = []
    for _ in range(restarts):
        random = torch.rand(n_values, len(shares), generator=generator, dtype=torch.float64).log().neg()
        emission = (random / random.sum(1, keepdim=True) + shares) / 2
        found.append(_climb(emission, few, shares, constraint, EM_STEPS))
    best = sorted(found, key=itemgetter(1), reverse=True)[:FINALISTS]
    emission, _ = max((_climb(start, few, shares, constraint, EM_MOST) for start, _ in best), key=itemgetter(1))
    emission, _ = _climb(emission, shown, shares, constraint, EM_STEPS)
    values, log_likelihood = _expect(emission, shown, constraint)
    rows = torch.zeros(len(clusters), n_values, dtype=torch.float64)
    rows.index_add_(0, groups.flatten(), values.flatten(0, 1))
    alone = shares.log()[shown].sum(1)
    gain = (log_likelihood - alone).mean() - _log_models(constraint)
    return Grounding(rows / rows.sum(1, keepdim=True), float(gain))


def _log_models(constraint: Constraint) -> float:
    """The logarithm of the number of models."""
    uniform = {v.name: torch.full((1, v.size), 1 / v.size, dtype=torch.float64).log() for v in constraint.variables}
    return float(constraint.log_prob(uniform)) - float(sum(p[0, 0] for p in uniform.values()))


def _climb(
    emission: torch.Tensor, shown: torch.Tensor, shares: torch.Tensor, constraint: Constraint, iterations: int
) -> tuple[torch.Tensor, float]:
    """Run EM; returns the last emission, and the log-likelihood before its last update."""
    before = -torch.inf
    for _ in range(iterations):
        values, log_likelihood = _expect(emission, shown, constraint)
        total = float(log_likelihood.sum())
        if total - before < 1e-6 * len(shown):
            break
        before = total
        counts = torch.zeros_like(emission).index_add_(1, shown.flatten(), values.flatten(0, 1).T)
        counts += PSEUDO * shares
        emission = counts / counts.sum(1, keepdim=True)
    return emission, before


def _expect(emission: torch.Tensor, shown: torch.Tensor, constraint: Constraint) -> tuple[torch.Tensor, torch.Tensor]:
    """P(value | clusters of its group, rule) [groups, variables, values], and each group's log-likelihood.

    The log-likelihood is not yet reduced by the logarithm of the number of models.
    """
    log_e = emission.log().T[shown]  # [groups, variables, values]
    evidence = log_e.logsumexp(2)
    names = constraint.inputs
    log_p = dict(zip(names, F.log_softmax(log_e, dim=2).unbind(1), strict=True))
    marginals = constraint.marginals(log_p)
    log_likelihood = evidence.sum(1) + constraint.log_prob(log_p, check=False)
    return torch.stack([marginals[name] for name in names], dim=1), log_likelihood
