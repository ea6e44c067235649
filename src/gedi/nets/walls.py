"""Walls around the region a density was learned on: beyond them it falls off as a Gaussian."""

from __future__ import annotations

import torch
from torch import nn

Support = tuple[torch.Tensor, torch.Tensor]


class Walled(nn.Module):
    """Knows the lowest and highest corner of the ``support``, and how far a point lies outside; None: no walls."""

    low: torch.Tensor | None
    high: torch.Tensor | None

    def __init__(self, support: Support | None = None, wall: float = 0.1) -> None:
        super().__init__()
        self.wall = wall
        self.register_buffer("low", None if support is None else support[0].clone())
        self.register_buffer("high", None if support is None else support[1].clone())

    def walled(self, x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """``value``, log p inside the walls, less what they take from it at x."""
        if self.low is None:
            return value
        return value - self._outside(x).flatten(1).square().sum(1) / (2 * self.wall**2)

    def walled_gradient(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """``gradient``, d log p / dx inside the walls, and the walls' own."""
        return gradient if self.low is None else gradient - self._outside(x) / self.wall**2

    def _outside(self, x: torch.Tensor) -> torch.Tensor:
        """How far x lies outside the support, coordinate by coordinate."""
        assert self.low is not None and self.high is not None
        return x - torch.minimum(torch.maximum(x, self.low), self.high)
