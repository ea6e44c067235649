"""Heads on the representation: projectors with batch norm, and parallel cluster heads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional as F


class Projector(nn.Module):
    """One hidden layer, batch norm after both layers (Appendix G), output on the unit sphere if ``normalise``.

    With ``normalise=True`` this is ``proj`` (used by L_DI); with ``False`` it is ``proj*`` (used by L_NF).
    """

    def __init__(self, size_in: int, hidden: int, out: int, *, normalise: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(size_in, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, out, bias=False),
            nn.BatchNorm1d(out),
        )
        self.normalise = normalise

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        z = self.layers(h)
        return F.normalize(z, dim=1) if self.normalise else z


class ClusterHeads(nn.Module, ABC):
    """Parallel cluster heads on one embedding, each with c scores per row; predictions use the head ``chosen``.

    Heads are independent: they start from different weights, and the run keeps one of them.
    """

    chosen: torch.Tensor

    def __init__(self, n_heads: int, n_clusters: int) -> None:
        super().__init__()
        self.n_heads, self.n_clusters = n_heads, n_clusters
        self.register_buffer("chosen", torch.zeros((), dtype=torch.int64))

    @abstractmethod
    def all_scores(self, z: torch.Tensor) -> torch.Tensor:
        """Scores of every head, [heads, n, c]."""

    @abstractmethod
    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Scores of the chosen head, [n, c]."""

    @abstractmethod
    def place(self, centres: torch.Tensor) -> None:
        """Put the first k clusters of every head at ``centres`` [k, h], where k is at most c."""


class LinearHeads(ClusterHeads):
    """Unbounded scores: a linear layer per head, all computed in one matrix product."""

    def __init__(self, n_heads: int, n_clusters: int, size: int) -> None:
        super().__init__(n_heads, n_clusters)
        self.weight = nn.Parameter(torch.empty(n_heads, n_clusters, size))
        # Scores start about as spread out as the embedding: much smaller ones would lead all heads the same way.
        if not self.weight.is_meta:  # on the meta device, drawing would import torch's compiler
            nn.init.normal_(self.weight, std=1 / math.sqrt(size))
        self.bias = nn.Parameter(torch.zeros(n_heads, n_clusters))

    def all_scores(self, z: torch.Tensor) -> torch.Tensor:
        # With rows next to each other in memory, losses over few clusters and many rows are faster.
        scores = torch.addmm(self.bias.flatten()[:, None], self.weight.flatten(0, 1), z.T)
        return scores.view(self.n_heads, self.n_clusters, len(z)).transpose(1, 2)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return F.linear(z, self.weight[self.chosen], self.bias[self.chosen])

    @torch.no_grad()
    def place(self, centres: torch.Tensor) -> None:
        # w = 2m and b = -|m|^2: the largest score is that of the nearest centre.
        self.weight[:, : len(centres)] = 2 * centres
        self.bias[:, : len(centres)] = -centres.square().sum(1)


class Prototypes(ClusterHeads):
    """U of Eq. 3: c cluster centres per head, kept on the unit sphere by construction."""

    def __init__(self, n_heads: int, n_clusters: int, size: int) -> None:
        super().__init__(n_heads, n_clusters)
        directions = torch.empty(n_heads, n_clusters, size)
        if not directions.is_meta:  # on the meta device, drawing would import torch's compiler
            directions = F.normalize(directions.normal_(), dim=2)
        self.directions = nn.Parameter(directions)

    @property
    def centres(self) -> torch.Tensor:
        """The c unit-norm rows of every head's U^T, [heads, c, h]."""
        return F.normalize(self.directions, dim=2)

    def all_scores(self, z: torch.Tensor) -> torch.Tensor:
        """Cosine scores U^T g(x)."""
        return z @ self.centres.transpose(1, 2)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.centres[self.chosen].T

    @torch.no_grad()
    def place(self, centres: torch.Tensor) -> None:
        self.directions[:, : len(centres)] = centres
