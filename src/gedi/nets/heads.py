"""Heads on the representation: projectors with batch norm, and unit-norm prototypes."""

from __future__ import annotations

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


class Prototypes(nn.Module):
    """U of Eq. 3: c cluster centres, kept on the unit sphere by construction."""

    def __init__(self, n_clusters: int, size: int) -> None:
        super().__init__()
        directions = torch.empty(n_clusters, size)
        if not directions.is_meta:  # shapes without numbers: drawing them would import torch's compiler
            directions = F.normalize(directions.normal_(), dim=1)
        self.directions = nn.Parameter(directions)

    @property
    def centres(self) -> torch.Tensor:
        """The c unit-norm rows of U^T."""
        return F.normalize(self.directions, dim=1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Cosine scores U^T g(x), one column per cluster."""
        return z @ self.centres.T


class Classifier(Prototypes):
    """A plain linear layer instead of prototypes, as in a supervised network: nothing is normalised."""

    def __init__(self, n_clusters: int, size: int) -> None:
        super().__init__(n_clusters, size)
        linear = nn.Linear(size, n_clusters)
        self.directions, self.bias = linear.weight, linear.bias

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Logits, one column per cluster."""
        return F.linear(z, self.directions, self.bias)
