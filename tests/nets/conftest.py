"""One small density of every kind."""

from functools import partial

import pytest
import torch
from torch import nn

from gedi.nets import (
    ClusterDensity,
    ContrastiveDensity,
    Density,
    EnergyDensity,
    FlowDensity,
    MLPEncoder,
    Projector,
    Prototypes,
    VaeDensity,
)
from gedi.objectives.contrastive import contrastive_log_density

SUPPORT = (torch.full((2,), -2.0), torch.full((2,), 2.0))


def rows(n=16, d=2, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def head(*last, normalise):
    """Encoder and projector whose batch norms have seen data."""
    layers = nn.Sequential(MLPEncoder(2, [16], 8), Projector(8, 12, 4, normalise=normalise), *last)
    layers(3 * rows(64, dtype=torch.float32) + 1)
    return layers


def make(kind: str, seed: int = 0, support=SUPPORT, sharpen: float = 1.0) -> Density:
    """A small one in float64. ``sharpen`` moves it away from its start, where an energy is nearly flat."""
    torch.manual_seed(seed)
    if kind == "energy":
        energy = nn.Sequential(MLPEncoder(2, [16, 8], 4), nn.Linear(4, 1, bias=False), nn.Flatten(0))
        density = EnergyDensity(energy, support=support)
    elif kind == "contrastive":
        bank = rows(5, 4, seed=9, dtype=torch.float32)
        marginal = partial(contrastive_log_density, tau=2.0, similarity="negative_squared_distance")
        density = ContrastiveDensity(head(normalise=False), bank, marginal=marginal, support=support)
    elif kind == "cluster":
        density = ClusterDensity(head(Prototypes(1, 3, 4), normalise=True), tau=0.3, support=support)
    elif kind == "flow":
        density = FlowDensity(2, kind="nsf", transforms=3, hidden=[16])
    else:
        density = VaeDensity(2, latent=2, hidden=[16], importance=8)
    with torch.no_grad():
        for parameter in density.parameters():
            parameter.mul_(sharpen)
    return density.double().eval()  # GediNet sees to it


@pytest.fixture(name="make")
def _make():
    return make
