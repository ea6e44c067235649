"""The symbolic term: -log P(constraint), the semantic loss."""

from __future__ import annotations

import torch


def symbolic_loss(log_prob: torch.Tensor) -> torch.Tensor:
    """-log P(constraint) per group of items, from ``Constraint.log_prob`` [groups].

    Zero when the predictions satisfy the constraint for certain; infinite when they cannot.

    >>> symbolic_loss(torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    return -log_prob.mean()
