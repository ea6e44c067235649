"""Stochastic gradient Langevin dynamics on log p_Psi (Sec. 3.1): pure steps, and the buffer that keeps their chains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from gedi.data.scaled_rows import Rows

Gradient = Callable[[torch.Tensor], torch.Tensor]  # d log p / dx, one row per sample
MANY_MORE = 32  # if there are this many times more numbers than draws, sorting the draws is faster than shuffling all


class Box(NamedTuple):
    """Axis-aligned bounds the sampler never leaves; ``low`` and ``high`` broadcast against one sample."""

    low: torch.Tensor
    high: torch.Tensor

    @classmethod
    def around(cls, x: torch.Tensor, margin: float) -> Box:
        """Smallest box around the rows of ``x``, widened by ``margin`` on every side."""
        return cls(x.amin(0) - margin, x.amax(0) + margin)

    def clamp(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, self.low, self.high)

    def reached(self, x: torch.Tensor) -> torch.Tensor:
        """Which coordinates lie on the boundary or beyond it."""
        return (x <= self.low) | (x >= self.high)

    def outward(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """Which coordinates lie on the boundary or beyond it, with ``direction`` pointing further out."""
        return ((x <= self.low) & (direction < 0)) | ((x >= self.high) & (direction > 0))

    def unbounded(self) -> Box:
        """The whole space."""
        return Box(torch.full_like(self.low, -math.inf), torch.full_like(self.high, math.inf))

    def cpu(self) -> Box:
        return Box(self.low.cpu(), self.high.cpu())

    def uniform(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """``n`` points drawn uniformly inside the box."""
        unit = torch.rand((n, *self.low.shape), generator=generator, device=self.low.device)
        return self.low + unit * (self.high - self.low)


@torch.no_grad()
def sgld_step(
    gradient: Gradient,
    x: torch.Tensor,
    *,
    step: float,
    noise: float,
    box: Box,
    generator: torch.Generator,
    max_drift: float | None = None,
) -> torch.Tensor:
    """One Langevin step on log p_Psi (Sec. 3.1), kept inside the data's box.

    ``step = noise**2 / 2`` is temperature 1: the chain's stationary density is p_Psi itself. The paper's setting
    (step 1, noise 0.01) is a temperature of 5e-5. ``max_drift`` bounds the length of the deterministic part, in units
    of the noise's typical length: without it a chain overshoots a ridge thinner than its drift, never settles on it,
    and the energy grows without end to hold it there.
    """
    drift = step * gradient(x)
    if max_drift is not None:
        longest = max_drift * noise * math.sqrt(math.prod(x.shape[1:]))
        drift = torch.renorm(drift, p=2, dim=0, maxnorm=longest)
    kick = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    return box.clamp(drift.add_(x).add_(kick, alpha=noise))


def sgld(
    gradient: Gradient,
    x: torch.Tensor,
    *,
    steps: int,
    noise: float,
    box: Box,
    generator: torch.Generator,
    step: float | None = None,
    final_noise: float | None = None,
    max_drift: float | None = None,
) -> torch.Tensor:
    """Run ``steps`` Langevin steps from ``x`` on the density whose score is ``gradient``; returns the new samples.

    ``step=None`` keeps temperature 1 (step = noise**2 / 2). With ``final_noise`` the noise falls geometrically from
    ``noise`` to it within the call: coarse steps travel, fine steps settle into thin structures, and all are at
    temperature 1.

    >>> g = torch.Generator().manual_seed(0)
    >>> box = Box(torch.full((2,), -5.0), torch.full((2,), 5.0))
    >>> sgld(lambda x: -x, torch.zeros(8, 2), steps=3, noise=0.1, box=box, generator=g).shape
    torch.Size([8, 2])
    """
    ratio = 1.0 if final_noise is None or steps < 2 else (final_noise / noise) ** (1 / (steps - 1))
    x = x.detach()
    for k in range(steps):
        sigma = noise * ratio**k
        size = sigma**2 / 2 if step is None else step
        x = sgld_step(gradient, x, step=size, noise=sigma, box=box, generator=generator, max_drift=max_drift)
    return x


class ReplayBuffer:
    """Chains kept between iterations, as in JEM; ``draw`` restarts a share of them, ``put`` writes the moved ones back.

    ``restart`` is the paper's re-initialisation frequency: that share of the drawn chains restarts uniformly in the
    box, or in ``restarts`` if it is given. The share ``from_data`` restarts from data instead. This keeps the share of
    chains in each component close to the data's; Langevin noise alone moves chains across a valley only slowly. These
    restarts are blurred by ``blur``, like the data shown to the density, which would otherwise learn the difference.
    With ``from_data=1`` all chains start from data, which is contrastive divergence.
    """

    def __init__(self, size: int, box: Box, generator: torch.Generator, restarts: Box | None = None) -> None:
        self.box, self.restarts = box, restarts or box
        self.chains = self.restarts.uniform(size, generator)

    def draw(
        self,
        n: int,
        *,
        restart: float,
        generator: torch.Generator,
        data: Rows,
        from_data: float,
        blur: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``n`` distinct chains and their indices in the buffer."""
        device = self.chains.device
        places = distinct(len(self.chains), n, generator)
        chains = self.chains[places]
        chance = torch.rand(len(places), generator=generator, device=device).view(-1, *[1] * (chains.ndim - 1))
        chains = torch.where(chance < restart, self.restarts.uniform(len(places), generator), chains)
        if from_data > 0:
            rows = torch.randint(len(data), (len(places),), generator=generator, device=device)
            fresh = data[rows].to(device)
            fresh = fresh + blur * torch.randn(fresh.shape, generator=generator, device=device)
            chains = torch.where((chance >= restart) & (chance < restart + from_data), fresh, chains)
        return chains, places

    def put(self, places: torch.Tensor, chains: torch.Tensor) -> None:
        """Write moved chains back to their places."""
        self.chains[places] = chains


def distinct(n: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """``size`` distinct numbers below ``n``, or all of them, in random order; O(size log size) for large ``n``.

    >>> len(set(distinct(10**12, 400, torch.Generator().manual_seed(0)).tolist()))
    400
    """
    device = generator.device
    if n < MANY_MORE * size:
        return torch.randperm(n, generator=generator, device=device)[:size]
    while True:
        # Draw more than needed, to allow for duplicates. Every set of distinct numbers is equally likely.
        drawn = torch.randint(n, (2 * size,), generator=generator, device=device).unique()
        if len(drawn) >= size:
            return drawn[torch.randperm(len(drawn), generator=generator, device=device)[:size]]
